// Folds lines of a log: those that several pods wrote alike one after the other, and the middle frames of a traceback.
import { $, $$, make } from "./dom.js";
import { many } from "./words.js";

const RANK = /^\[rank\d+\]:? ?/; // which launchers put before each line of a process
const TRACEBACK = /^Traceback \(most recent call last\)/;
const FRAME = /^ +File ".*", line \d+/;
const SHOWN = 2; // frames at the start of a traceback; its last one is shown, too
const FEWEST = 2; // frames that are worth a fold

/** Fold the rows. `unfolded` has the numbers of the lines whose fold was opened; null if nothing is folded. */
export function fold(rows, unfolded) {
  for (const button of $$(".same", rows)) button.remove();
  const lines = [...rows.children].filter((row) => !row.classList.contains("off"));
  for (const row of lines) row.classList.remove("dup", "tb");
  foldTracebacks(lines, unfolded);
  foldEqual(lines, unfolded);
}

/** The row itself; the one before it that is drawn, if it is folded or hidden. */
export function visible(row) {
  while (row?.matches(".dup, .off") && row.previousElementSibling) row = row.previousElementSibling;
  return row;
}

const text = (row) => $(".msg", row).textContent.replace(RANK, "");

function hide(head, rows, words, unfolded) {
  if (!unfolded || unfolded.has(Number(head.dataset.n))) return;
  for (const row of rows) row.classList.add("dup");
  $(".msg", head).append(make("button.fold-n.same", { type: "button", "data-unfold": head.dataset.n }, `${words} · show`));
}

function foldTracebacks(lines, unfolded) {
  const open = new Map(); // frames of the traceback that each pod writes, each a list of rows
  for (const row of lines) {
    if (!row.matches(".ln:not(.sys)")) continue;
    const pod = $(".pf", row).textContent;
    const words = text(row);
    const frames = open.get(pod);
    if (TRACEBACK.test(words)) open.set(pod, []);
    else if (!frames) continue;
    else if (FRAME.test(words)) frames.push([row]);
    else if (words.startsWith("  ") && frames.length) frames.at(-1).push(row);
    else {
      open.delete(pod);
      foldFrames(frames, unfolded);
      continue;
    }
    row.classList.add("tb");
  }
  for (const frames of open.values()) foldFrames(frames, unfolded);
}

function foldFrames(frames, unfolded) {
  const folded = frames.slice(SHOWN, -1);
  if (folded.length >= FEWEST) hide(frames[SHOWN - 1].at(-1), folded.flat(), many(folded.length, "more frame"), unfolded);
}

function foldEqual(lines, unfolded) {
  let head = null;
  let words = null;
  let alike = [];
  const close = () => {
    if (alike.length) hide(head, alike, `${many(alike.length, "more pod")} said the same`, unfolded);
    alike = [];
  };
  for (const row of lines) {
    const said = row.matches(".ln:not(.sys, .err, .first, .tb)") ? text(row) : null;
    if (head && said !== null && said === words && $(".pf", row).textContent !== $(".pf", head).textContent) {
      alike.push(row);
      continue;
    }
    close();
    head = said ? row : null;
    words = said;
  }
  close();
}
