// The strip of lines by time above a log: it frames the part on screen, and a click goes to a moment.
import { $, $$ } from "./dom.js";

export class Volume {
  constructor(card) {
    this.strip = $("#volume", card);
    this.window = $("#window", card);
    this.bars = $$("#volume .b", card).map((bar) => [Number(bar.dataset.line), Number(bar.getAttribute("x"))]);
  }

  /** Frame the rows that are on screen in `box`; `total` lines are known, and `at` is the first of the rows. */
  frame(box, rows, at, total) {
    if (!this.window || !total) return;
    const shown = rows.filter((row) => row.offsetHeight);
    const low = shown.find((row) => row.offsetTop + row.offsetHeight > box.scrollTop);
    const high = shown.findLast((row) => row.offsetTop < box.scrollTop + box.clientHeight);
    const place = (number) => this.bars.findLast(([line]) => line <= number)?.[1] ?? 0;
    const left = place(Number(low?.dataset.n ?? at));
    const right = high && Number(high.dataset.n) >= total - 1 ? 998 : place(Number(high?.dataset.n ?? at)) + 8;
    this.window.setAttribute("x", String(left));
    this.window.setAttribute("width", String(Math.max(10, right - left)));
  }

  /** The number of the first line at the time of a click; null if it was elsewhere. */
  line(event) {
    if (!this.strip?.contains(event.target)) return null;
    const box = this.strip.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * 1000;
    return this.bars.findLast(([, left]) => left <= x)?.[0] ?? null;
  }
}
