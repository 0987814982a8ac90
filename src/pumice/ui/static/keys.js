// Keys. No single key acts on a job.
import { $, $$ } from "./dom.js";

export function keys(state, visit) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const focus = document.activeElement;
    const open = $("dialog[open]");
    if (open) return;
    if (focus.matches("input:not([type=checkbox]), select, textarea")) {
      if (event.key === "Escape") leave(focus);
      return;
    }
    if (/^Arrow/.test(event.key) && arrow(focus, event)) return;
    const act = {
      "/": () => search(event),
      j: () => row(1),
      k: () => row(-1),
      "[": () => attempt(-1),
      "]": () => attempt(1),
      n: () => state.logs?.matches.step(1),
      N: () => state.logs?.matches.step(-1),
      e: () => state.logs?.act("first"),
      f: () => state.logs?.act("follow"),
      t: () => state.logs?.act("time"),
      w: () => state.logs?.act("wrap"),
      z: () => state.logs?.act("max"),
      m: () => state.logs?.mark(),
      "?": () => $("#keys").showModal(),
      Escape: () => back(visit),
    }[event.key];
    if (act) act();
    else if (/^[1-7]$/.test(event.key)) $$(".tablist a, [data-filter]")[Number(event.key) - 1]?.click();
  });
}

/** Leave a field: the first time it is emptied, and the filter with it. */
function leave(field) {
  if (field.value && field.matches("input")) {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  } else field.blur();
}

function search(event) {
  const field = $("#search") || $("#filter");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

/** Focus the next row of the list or of the pods. */
function row(by) {
  const rows = $$(".jn, .pn").filter((each) => each.offsetParent && !each.closest(".sr"));
  if (!rows.length) return;
  const here = rows.indexOf(document.activeElement);
  const next = rows[here < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, here + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function attempt(by) {
  const links = $$(".tabs .seg a");
  const here = links.findIndex((each) => each.hasAttribute("aria-current"));
  links[here + by]?.click();
}

function back(visit) {
  const log = $(".log.max");
  if (log) {
    log.classList.remove("max");
    return;
  }
  const link = $(".crumb a");
  if (link) link.click();
  else if (location.search) visit("/", { fresh: false });
}

/** Arrow keys among tabs, choices and lifelines. */
function arrow(focus, event) {
  const side = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const group = focus.closest(".tablist, .seg, .filters");
  let next = null;
  if (group && side) {
    const links = $$("a, button", group);
    next = links[(links.indexOf(focus) + side + links.length) % links.length];
  } else if (focus.matches(".br")) {
    const bars = $$(".br[tabindex]", focus.closest("svg"));
    next = side ? bars[bars.indexOf(focus) + side] : rowBar(focus, event.key === "ArrowDown" ? 1 : -1);
  }
  if (!next) return false;
  next.focus();
  event.preventDefault();
  return true;
}

/** The first bar of the row below or above. */
function rowBar(bar, by) {
  const rows = $$(".tl-row").filter((each) => $(".br[tabindex]", each));
  const here = rows.indexOf(bar.closest(".tl-row"));
  return rows[here + by] ? $(".br[tabindex]", rows[here + by]) : null;
}
