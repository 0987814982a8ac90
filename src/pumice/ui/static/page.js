// The script of the page: draws changes in place, handles keys, and starts the log and the cells of a job. Without it
// the page is complete, but does not update.
import { $, $$, ask, make, morph, parse, remembered } from "./dom.js";
import { Cells } from "./cells.js";
import { confirmAction, hints } from "./dialogs.js";
import { Live, nameLive } from "./live.js";
import { Logs } from "./logs.js";
import { keys } from "./keys.js";
import { tick } from "./words.js";

const PAUSE = 250; // milliseconds between two redraws
const SLOW = 300; // milliseconds until the page says that it loads
const LATE = 5000; // milliseconds until it says what it waits for
const state = { logs: null, cells: null, live: null, uid: document.body.dataset.uid || "", drawn: 0, cost: 0, timer: 0, changed: false, held: null, visit: null, turn: 0, going: 0, acting: false };

/**
 * Logs and cells draw themselves: they stay as they are, or another choice puts new ones in their place. A log stays
 * until the job begins another attempt, unless its attempt was chosen by hand.
 */
const keeps = (fresh) => (from, to) => {
  if (from.id === "banner" || (from.id === "filter" && document.activeElement === from)) return true;
  if (from.id !== "logs" && from.id !== "cells") return false;
  const [had, has] = [from, to].map((each) => Boolean($("#lines", each)));
  if (from.id === "logs" && !had && !has) return false;
  const other = from.id === "logs" && !from.dataset.pinned && from.dataset.attempt !== to.dataset.attempt;
  if (fresh || other || had !== has) from.replaceWith(document.importNode(to, true));
  return true;
};

function start() {
  const card = $("#logs");
  if (!card || !$("#lines", card)) state.logs = null;
  else if (state.logs?.card !== card) {
    state.logs = new Logs(card, state.uid);
    state.live?.restart();
  }
  const canvas = $("#cells");
  if (!canvas) state.cells = null;
  else if (state.cells?.canvas !== canvas) state.cells = new Cells(canvas, state.uid, document.body.dataset.attempt || "");
  const tab = $(".tablist [aria-current]");
  const pod = $(".plist [aria-current]");
  if (pod) $(".plist").scrollLeft = pod.offsetLeft - $(".plist").offsetLeft - 24;
  if (tab) $(".tabs").scrollLeft = Math.max(0, tab.offsetLeft + tab.offsetWidth + 24 - $(".tabs").clientWidth);
}

/** Show a page of this server in place of this one. Of several on their way the last one counts; a choice goes before a redraw. `keep`: logs and cells stay as they are. */
function visit(url, { push = true, fresh = true, keep = !fresh } = {}) {
  if (!fresh && state.going) return state.visit;
  const turn = ++state.turn;
  if (fresh) state.going = turn;
  const timers = fresh ? [setTimeout(says, SLOW, "loading"), setTimeout(says, LATE, "late")] : [];
  state.visit = show(url, { push, fresh, keep }, turn).finally(() => {
    timers.forEach(clearTimeout);
    if (state.going !== turn) return;
    state.going = 0;
    document.body.classList.remove("loading", "late");
    if (state.live) nameLive();
    if (state.changed && !state.timer) redrawSoon();
  });
  return state.visit;
}

function says(name) {
  document.body.classList.add(name);
  nameLive();
}

async function show(url, { push, fresh, keep }, turn) {
  const begin = performance.now();
  const answer = await ask(url);
  if (turn !== state.turn || !answer) return; // a banner says that the server does not answer
  if (!answer.ok) {
    if (fresh || answer.status === 404) location.assign(url); // the job is gone: the server says so
    return;
  }
  const page = parse(await answer.text());
  if (turn !== state.turn) return;
  if (push) history.pushState(null, "", url);
  document.title = page.title;
  for (const [key, value] of Object.entries(page.body.dataset)) document.body.dataset[key] = value;
  morph($("#meters"), $("#meters", page));
  if (document.body.dataset.view === "jobs") drawJobs(page);
  else morph($("#main"), $("#main", page), keeps(!keep));
  start();
  state.cells?.load();
  state.drawn = performance.now();
  state.cost = state.drawn - begin;
}

/**
 * Redraw soon, at most four times a second, and less often where a redraw takes long. What changes while a redraw is on
 * its way may not be in it, so another one follows.
 */
function changed(kind) {
  if (kind === "gone") {
    if (!state.acting) location.reload(); // the server says that there is no such job
    return;
  }
  if (kind === "back" && state.logs?.follow) state.logs.toEnd();
  state.changed = true;
  if (!state.timer) redrawSoon();
}

function redrawSoon() {
  const wait = Math.max(0, state.drawn + Math.max(PAUSE, state.cost * 4) - performance.now());
  state.timer = setTimeout(async () => {
    if (!state.acting && !state.going) {
      state.changed = false;
      await visit(location.href, { push: false, fresh: false });
    }
    state.timer = 0;
    // The end of an action, and of a visit, calls this again.
    if (state.changed && !state.acting && !state.going) redrawSoon();
  }, wait);
}

// --- the list: rows do not move while the pointer or the focus is on them ------------------------------------------

const order = (root) => $$("tr.job", root).map((row) => row.id).join(" ");
const busy = () => $("#rows")?.matches(":hover") || $("#rows")?.contains(document.activeElement);

function drawJobs(page) {
  const rows = $("#rows");
  const fresh = $("#rows", page);
  if (!rows || !fresh || !$("table", rows) || !$("table", fresh) || !busy() || order(rows) === order(fresh)) {
    state.held = null;
    $("#changed")?.remove();
    morph($("#main"), $("#main", page), keeps(false));
    return;
  }
  morph($("#filters"), $("#filters", page));
  let moved = 0;
  const ids = $$("tr.job", rows).map((row) => row.id);
  $$("tr.job", fresh).forEach((row, index) => {
    if (ids[index] !== row.id) moved += 1;
    const here = document.getElementById(row.id);
    if (here) morph(here, row);
  });
  state.held = page;
  let note = $("#changed");
  if (!note) {
    note = make("div.changed", { id: "changed" }, make("button.btn.sm", { type: "button" }));
    $("button", note).addEventListener("click", release);
    rows.before(note);
  }
  $("button", note).textContent = `${Math.max(1, moved)} changed`;
}

function release() {
  if (!state.held) return;
  const page = state.held;
  state.held = null;
  $("#changed")?.remove();
  morph($("#main"), $("#main", page), keeps(false));
}

// --- clicks and choices --------------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const target = event.target.closest("a, button");
  if (!target) return;
  if (document.body.classList.contains("stale") && (target.dataset.action || target.origin === location.origin)) {
    event.preventDefault(); // what is known stays on screen
    return;
  }
  if (target.dataset.action) {
    event.preventDefault();
    // Do not redraw during an action or before another page is shown: the job may be deleted by then.
    const begin = () => {
      state.acting = true;
      return state.visit;
    };
    const end = (leaves) => {
      state.acting = leaves;
      if (leaves) state.live?.close();
      else changed("action");
    };
    confirmAction(state.uid, target.dataset.action, begin, end);
  } else if (target.dataset.copy !== undefined || target.dataset.copyFrom) copy(target);
  else if (target.dataset.by) filterRendered(target);
  else if (target.id === "theme") nextTheme();
  else if (target.id === "help") $("#keys").showModal();
  else if (target.href && inPlace(target)) {
    event.preventDefault();
    visit(target.href, { keep: Boolean(target.dataset.every) });
  }
});

/** Links within one job, and filters of the list, are drawn in place. */
function inPlace(link) {
  if (link.origin !== location.origin || link.pathname !== location.pathname || link.hash || link.hasAttribute("download")) return false;
  return Boolean(link.dataset.tab || link.dataset.every || link.dataset.attempt || link.dataset.pod || link.dataset.filter || link.closest(".plist"));
}

document.addEventListener("change", (event) => {
  const choice = event.target.dataset.choice;
  if (!choice || event.target.closest("#logs")) return;
  const query = new URLSearchParams(new FormData(event.target.form));
  visit(`${location.pathname}?${query}`);
});

document.addEventListener("pumice-pod", (event) => visit(`${location.pathname}?${new URLSearchParams({ pod: event.detail })}`));
document.addEventListener("pumice-filter", () => state.live?.restart());
addEventListener("popstate", () => visit(location.href, { push: false }));

function copy(button) {
  const source = button.dataset.copyFrom ? document.getElementById(button.dataset.copyFrom) : $("code", button.parentElement);
  const text = button.dataset.copyFrom ? [...source.children].map((line) => line.textContent).join("\n") : source.textContent;
  navigator.clipboard?.writeText(text).catch(() => {});
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1200);
}

function filterRendered(button) {
  for (const each of $$("[data-by]")) each.setAttribute("aria-pressed", String(each === button));
  for (const row of $$("[data-group]")) row.hidden = button.dataset.by !== "all" && !row.dataset.group.split(" ").includes(button.dataset.by);
  for (const body of $$(".prov tbody")) body.hidden = !$("tr.r:not([hidden])", body);
}

function nextTheme() {
  const root = document.documentElement;
  const next = { undefined: "light", light: "dark", dark: "auto" }[root.dataset.theme];
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  remembered.set("theme", next);
  nameTheme();
  state.cells?.draw();
}

function nameTheme() {
  const name = document.documentElement.dataset.theme || "as the system";
  $("#theme").setAttribute("aria-label", `Theme: ${name}`);
  $("#theme").dataset.tip = `Theme: ${name}`;
}

let typing = 0;
document.addEventListener("input", (event) => {
  if (event.target.id !== "filter") return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const query = new URLSearchParams(new FormData(event.target.form));
    for (const [key, value] of [...query]) if (!value || value === "all") query.delete(key);
    visit(query.size ? `/?${query}` : "/", { push: false, fresh: false });
    history.replaceState(null, "", query.size ? `/?${query}` : "/");
  }, 150);
});

// --- start ---------------------------------------------------------------------------------------------------------

/** The address of the stream, with the choice of lines. */
function stream() {
  const query = new URLSearchParams(state.logs ? state.logs.query() : "");
  if (state.uid) query.set("job", state.uid);
  if (state.logs) query.set("html", 1);
  return `/api/stream?${query}`;
}

function lines(found) {
  if (!state.logs) {
    changed("line");
    return;
  }
  state.pending = state.pending ? { ...found, at: state.pending.at, html: state.pending.html + found.html } : found;
  if (state.frame) return;
  state.frame = requestAnimationFrame(() => {
    const all = state.pending;
    state.frame = 0;
    state.pending = null;
    state.logs?.grew(all);
  });
}

nameTheme();
hints();
keys(state, visit);
start();
document.addEventListener("pointerover", () => state.held && !busy() && release());
document.addEventListener("focusout", () => setTimeout(() => state.held && !busy() && release()));
setInterval(() => !document.hidden && !document.body.classList.contains("stale") && tick(document, Date.now()), 1000);
if (["jobs", "job"].includes(document.body.dataset.view)) state.live = new Live(stream, changed, lines);
