// The log of a job: about 200 lines are in the document, at any position of all lines. The server counts and searches.
import { $, $$, ask, make, parse, remembered } from "./dom.js";
import { fold, visible } from "./folds.js";
import { Matches } from "./matches.js";
import { Volume } from "./volume.js";
import { many } from "./words.js";

const WINDOW = 200;
const MARGIN = 60;
const LINE = 18;
const TALLEST = 8_000_000; // pixels: browsers do not scroll much further
const PUMICE = ":pumice"; // stands for the lines that Pumice wrote; no task can have this name

export class Logs {
  constructor(card, uid) {
    this.card = card;
    this.uid = uid;
    this.box = $("#lines", card);
    [this.before, this.after] = $$(".pad", this.box);
    this.rows = $(".rows", this.box);
    this.total = Number(card.dataset.total);
    this.at = Number(card.dataset.at || 0);
    this.count = this.rows.children.length;
    this.live = card.dataset.live === "1";
    this.follow = this.live;
    this.matches = new Matches(this);
    this.volume = new Volume(card);
    this.hidden = new Set(); // tasks
    this.shared = false; // only a share of the lines is drawn
    this.marked = new Set();
    this.unfolded = new Set();
    this.firstError = card.dataset.first === undefined ? null : Number(card.dataset.first);
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    card.addEventListener("click", (event) => this.clicked(event));
    card.addEventListener("change", (event) => this.changed(event));
    this.restore();
    this.fold();
    this.resizePads();
    if (this.matches.q) this.matches.enter(1);
    else this.open();
    this.frame();
  }

  /** Show what a reader looks for first: the first error of a log that has ended, else its end. */
  open() {
    const first = this.firstError;
    return first !== null && !this.live ? this.show(first, 0.6) : this.toEnd();
  }

  restore() {
    for (const [name, css, on] of [["wrap", "wrap", true], ["time", "nots", false]]) {
      const stored = remembered.get(`log-${name}`);
      const chosen = stored === null ? true : stored === "1";
      this.box.classList.toggle(css, chosen === on);
      this.button(name)?.setAttribute("aria-pressed", String(chosen));
    }
    for (const name of (remembered.get("log-hidden") || "").split(" ").filter(Boolean)) this.showTask(name, false);
    this.button("follow")?.setAttribute("aria-pressed", String(this.follow));
  }

  button(name) {
    return $(`[data-log="${name}"]`, this.card);
  }

  get unit() {
    return Math.min(LINE, TALLEST / Math.max(1, this.total));
  }

  /** Give the space before and after the drawn lines the height of the lines that are not drawn. */
  resizePads() {
    this.before.style.height = `${this.at * this.unit}px`;
    this.after.style.height = `${Math.max(0, this.total - this.at - this.count) * this.unit}px`;
  }

  query(more = {}) {
    const query = new URLSearchParams(more);
    for (const select of $$("[data-choice]", this.card)) if (select.value !== "") query.set(select.dataset.choice, select.value);
    return query.toString();
  }

  async load(at) {
    const start = Math.max(0, Math.min(at, this.total - 1));
    const chosen = this.matches.only ? { only: 1 } : {};
    const answer = await ask(`/api/jobs/${this.uid}/logs?${this.query({ at: start, lines: WINDOW, html: 1, q: this.matches.q, ...chosen })}`);
    if (!answer?.ok) return false;
    this.draw(await answer.json());
    return true;
  }

  /** The position of a row: its number; of lines with a match only, its place among them. */
  position(row) {
    return this.matches.only ? this.at + [...this.rows.children].indexOf(row) : Number(row.dataset.n);
  }

  draw(found) {
    const anchor = this.topRow();
    const height = anchor ? anchor.offsetTop - this.box.scrollTop : 0;
    const number = anchor?.dataset.n;
    this.total = found.total;
    this.live = found.live;
    this.at = found.at;
    this.setShare(null);
    this.firstError = found.firstError ?? null;
    this.rows.replaceChildren(...this.drawn(found));
    this.fold();
    this.count = this.rows.children.length;
    this.resizePads();
    const same = number === undefined ? null : $(`[data-n="${number}"]`, this.rows);
    if (same && !this.follow) this.box.scrollTop = same.offsetTop - height;
    this.sayTotal(found);
    this.frame();
  }

  sayTotal(found) {
    const kept = found.truncated ? "the oldest were removed" : "all kept";
    const all = `${many(found.total, "line")}, ${many(found.errors, "error")}; ${kept}`;
    const words = found.lines === null || found.lines === undefined ? all : `${found.total.toLocaleString("en")} of ${many(found.lines, "line")}: only matches`;
    $("#log-total", this.card).textContent = words;
  }

  /** The rows of an answer: the server draws them, with every text escaped. */
  drawn(found) {
    const rows = [...parse(found.html).body.children];
    for (const row of rows) {
      const number = Number(row.dataset.n);
      if (this.marked.has(number)) row.classList.add("marked");
      if (this.matches.current === number) row.classList.add("match");
      this.hideRow(row);
    }
    return rows;
  }

  /** Fold equal lines and tracebacks; a search unfolds them. */
  fold() {
    fold(this.rows, this.matches.q ? null : this.unfolded);
  }

  topRow() {
    const top = this.box.scrollTop;
    return [...this.rows.children].find((row) => row.offsetTop + row.offsetHeight > top) || null;
  }

  /** Lines came: `found` has those that the stream brought, and the new total. */
  grew(found) {
    if (this.matches.only) {
      this.matches.soon();
      return;
    }
    const end = this.at + this.count;
    const missing = !found.html || found.at > end;
    if (!missing && found.total < this.total) return; // these lines were loaded meanwhile
    this.total = found.total;
    this.live = found.live;
    if (!this.follow) {
      this.resizePads();
      this.frame();
      return;
    }
    if (missing || this.matches.q) {
      this.toEnd(); // the stream does not know what is searched for
      return;
    }
    this.rows.append(...this.drawn(found).filter((row) => Number(row.dataset.n) >= end));
    for (let over = this.rows.children.length - WINDOW; over > 0; over--) this.rows.firstElementChild.remove();
    this.at = Number(this.rows.firstElementChild.dataset.n);
    this.count = this.total - this.at;
    if (found.share > 1) this.setShare(found);
    this.fold();
    this.resizePads();
    this.box.scrollTop = this.box.scrollHeight;
    this.sayTotal(found);
    this.frame();
  }

  /** Say that only a share of the lines is drawn, because they come faster than anyone reads; null: all are. */
  setShare(found) {
    this.shared = found !== null;
    const note = $("#share", this.card);
    note.hidden = !this.shared;
    if (found) note.textContent = `About ${many(found.rate, "line")} a second: shown is 1 in ${found.share.toLocaleString("en")}, and every line with an error. Choose a pod to see all of its lines, or scroll up to see all.`;
  }

  async toEnd() {
    if (this.at + this.count < this.total || this.count < Math.min(WINDOW, this.total)) await this.load(this.total - WINDOW);
    this.box.scrollTop = this.box.scrollHeight;
  }

  /** Bring a line on screen, at a share of the height. */
  async show(number, share = 0.3) {
    this.setFollow(false);
    let at = number;
    if (this.matches.only) {
      const { positions } = this.matches;
      at = Math.max(0, positions.findIndex((each) => each >= number));
      number = positions[at];
    }
    if (!$(`[data-n="${number}"]`, this.rows)) await this.load(at - WINDOW / 2);
    const row = visible($(`[data-n="${number}"]`, this.rows));
    if (row) this.box.scrollTop = row.offsetTop - this.box.clientHeight * share;
  }

  setFollow(on) {
    if (this.follow === on) return;
    this.follow = on;
    this.button("follow")?.setAttribute("aria-pressed", String(on));
  }

  scrolled() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.settle();
    });
  }

  async settle() {
    const { scrollTop, clientHeight, scrollHeight } = this.box;
    const end = scrollTop + clientHeight >= scrollHeight - 4;
    if (this.live) this.setFollow(end);
    this.frame();
    if (this.loading) return; // it looks again when the lines are here
    if (this.shared && !this.follow) {
      await this.loadOnce(Number(this.topRow()?.dataset.n ?? this.at) - WINDOW / 2);
      return;
    }
    const top = this.rows.offsetTop;
    const bottom = top + this.rows.offsetHeight;
    const early = scrollTop < top + MARGIN * LINE && this.at > 0;
    const late = scrollTop + clientHeight > bottom - MARGIN * LINE && this.at + this.count < this.total;
    if (!early && !late) return;
    const inside = scrollTop >= top && scrollTop <= bottom;
    const here = inside ? this.topRow() : null;
    const first = here ? this.position(here) : Math.floor(scrollTop / this.unit);
    await this.loadOnce(Math.max(0, first - WINDOW / 2 + 15));
  }

  /** Load lines, and settle again if the reader scrolled on before they came: what is on screen then may not be drawn. */
  async loadOnce(at) {
    const { scrollTop } = this.box;
    this.loading = true;
    const answered = await this.load(at);
    this.loading = false;
    if (answered && this.box.scrollTop !== scrollTop) this.scrolled();
  }

  frame() {
    this.volume.frame(this.box, [...this.rows.children], this.at, this.total);
  }

  clicked(event) {
    const line = this.volume.line(event);
    if (line !== null) {
      this.show(line);
      return;
    }
    const fold = event.target.closest("[data-unfold]");
    if (fold) {
      this.unfolded.add(Number(fold.dataset.unfold));
      this.fold();
      return;
    }
    const long = event.target.closest("[data-whole]");
    if (long) {
      this.unfold(long);
      return;
    }
    const chip = event.target.closest("[data-hides]");
    if (chip) {
      this.showTask(chip.dataset.hides, chip.getAttribute("aria-pressed") !== "true");
      remembered.set("log-hidden", [...this.hidden].join(" "));
      return;
    }
    const button = event.target.closest("[data-log]");
    if (!button) return;
    event.preventDefault();
    this.act(button.dataset.log);
  }

  act(name) {
    const button = this.button(name);
    if (!button) return;
    const on = button.getAttribute("aria-pressed") !== "true";
    if (name === "first") this.showFirst();
    else if (name === "max") this.card.classList.toggle("max");
    else if (name === "download") this.download();
    else if (name === "follow") {
      this.setFollow(on);
      if (on) this.toEnd();
    } else {
      button.setAttribute("aria-pressed", String(on));
      this.box.classList.toggle(name === "wrap" ? "wrap" : "nots", name === "wrap" ? on : !on);
      remembered.set(`log-${name}`, on ? "1" : "0");
    }
  }

  /** Bring the first error on screen, also if the search does not find it. */
  async showFirst() {
    await this.matches.include(this.firstError);
    this.show(this.firstError, 0.5);
  }

  /** Show or hide the lines of a task. */
  showTask(name, on) {
    const chip = $$("[data-hides]", this.card).find((each) => each.dataset.hides === name);
    chip?.setAttribute("aria-pressed", String(on));
    if (on) this.hidden.delete(name);
    else this.hidden.add(name);
    for (const row of this.rows.children) this.hideRow(row);
    this.fold();
  }

  hideRow(row) {
    row.classList.toggle("off", row.matches(".ln") && this.hidden.has(row.dataset.task ?? PUMICE));
  }

  /** Show all of a long line. */
  async unfold(button) {
    const row = button.closest(".ln");
    const answer = await ask(`/api/jobs/${this.uid}/logs?${this.query({ at: button.dataset.whole, lines: 1, whole: 1, html: 1, q: this.matches.q })}`);
    if (!answer?.ok) return;
    const [whole] = this.drawn(await answer.json());
    if (!whole) return;
    row.replaceWith(whole);
    this.fold();
  }

  async changed(event) {
    if (event.target.id === "only") {
      this.setFollow(false);
      this.matches.search(this.matches.q);
    }
    if (!event.target.dataset.choice) return;
    this.card.dataset.pinned = "1";
    this.matches.forget();
    this.follow = this.live;
    this.total = Math.max(1, this.total);
    this.rows.replaceChildren(); // another choice numbers its lines anew: no row of this one is a place in it
    await this.load(Number.MAX_SAFE_INTEGER);
    await this.open();
    if (this.matches.q) this.matches.search(this.matches.q);
    this.card.dispatchEvent(new CustomEvent("pumice-filter", { bubbles: true }));
  }

  /** Mark the line on top of the screen, or unmark it. */
  mark() {
    const row = this.topRow();
    if (!row) return;
    const number = Number(row.dataset.n);
    if (!this.marked.delete(number)) this.marked.add(number);
    row.classList.toggle("marked", this.marked.has(number));
  }

  /** Save the chosen lines as text, long ones as a whole. */
  async download() {
    const parts = [];
    for (let at = 0; at < this.total; ) {
      const answer = await ask(`/api/jobs/${this.uid}/logs?${this.query({ at, lines: 1000, whole: 1 })}`);
      if (!answer?.ok) return;
      const found = await answer.json();
      if (!found.items.length) break;
      parts.push(...found.items.map((line) => `${line.time || ""} ${line.pod || "pumice"} ${line.text}\n`));
      at = found.at + found.items.length;
    }
    const link = make("a", { href: URL.createObjectURL(new Blob(parts, { type: "text/plain" })), download: `${document.body.dataset.run.replace(":", "-")}.log` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}
