// The log of a job: about 200 lines are in the document, at any position of all lines. The server counts and searches.
import { $, $$, ask, make, remembered } from "./dom.js";
import { lineRow } from "./lines.js";
import { many } from "./words.js";

const WINDOW = 200;
const MARGIN = 60;
const LINE = 18;
const TALLEST = 8_000_000; // pixels: browsers do not scroll much further

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
    this.positions = [];
    this.match = -1;
    this.q = $("#search", card)?.value || "";
    this.marked = new Set();
    this.unfolded = new Set();
    this.context = {
      begin: card.dataset.begin ? new Date(card.dataset.begin) : null,
      firstError: card.dataset.first === undefined ? null : Number(card.dataset.first),
      tasks: Object.fromEntries((card.dataset.tasks || "").split(" ").filter(Boolean).map((each) => each.split("="))),
      pattern: null,
    };
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    card.addEventListener("click", (event) => this.clicked(event));
    card.addEventListener("change", (event) => this.changed(event));
    card.addEventListener("submit", (event) => {
      event.preventDefault();
      this.step(1);
    });
    let typing = 0;
    $("#search", card)?.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.search($("#search", card).value), 150);
    });
    this.restore();
    this.fold();
    this.resizePads();
    if (this.q) this.search(this.q);
    else if (this.context.firstError !== null && !this.live) this.show(this.context.firstError, 0.6);
    else if (this.follow) this.toEnd();
    this.frame();
  }

  restore() {
    for (const [name, css, on] of [["wrap", "wrap", true], ["time", "nots", false]]) {
      const stored = remembered.get(`log-${name}`);
      const chosen = stored === null ? true : stored === "1";
      this.box.classList.toggle(css, chosen === on);
      this.button(name)?.setAttribute("aria-pressed", String(chosen));
    }
    for (const name of (remembered.get("log-hidden") || "").split(" ").filter(Boolean)) this.toggleTask(name, false);
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
    const answer = await ask(`/api/jobs/${this.uid}/logs?${this.query({ at: start, lines: WINDOW })}`);
    if (!answer?.ok) return false;
    this.draw(await answer.json());
    return true;
  }

  draw(found) {
    const anchor = this.topRow();
    const height = anchor ? anchor.offsetTop - this.box.scrollTop : 0;
    const number = anchor?.dataset.n;
    this.total = found.total;
    this.live = found.live;
    this.at = found.at;
    this.context.firstError = found.firstError ?? null;
    if (found.begin) this.context.begin = new Date(found.begin);
    const rows = document.createDocumentFragment();
    for (const line of found.items) rows.append(this.row(line));
    this.rows.replaceChildren(rows);
    this.fold();
    this.count = found.items.length;
    this.resizePads();
    const same = number === undefined ? null : $(`[data-n="${number}"]`, this.rows);
    if (same && !this.follow) this.box.scrollTop = same.offsetTop - height;
    const kept = found.truncated ? "the oldest were removed" : "all kept";
    $("#log-total", this.card).textContent = `${many(found.total, "line")}, ${many(found.errors, "error")}; ${kept}`;
    this.frame();
  }

  row(line) {
    const row = lineRow(line, this.context);
    if (this.marked.has(line.number)) row.classList.add("marked");
    if (this.positions[this.match] === line.number) row.classList.add("match");
    return row;
  }

  /** Fold lines that several pods wrote alike, one after the other; a search unfolds them. */
  fold() {
    for (const old of $$(".same", this.rows)) old.remove();
    let head = null;
    let more = 0;
    const close = () => {
      if (more) {
        const words = `${many(more, "more pod")} · show`;
        $(".msg", head).append(make("button.fold-n.same", { type: "button", "data-unfold": head.dataset.n }, words));
      }
      more = 0;
    };
    for (const row of this.rows.children) {
      const text = row.matches(".ln:not(.sys, .err, .first)") ? $(".msg", row).textContent : null;
      const alike = head !== null && text !== null && text === head.said && $(".pf", row).textContent !== $(".pf", head).textContent;
      const hides = alike && !this.q && !this.unfolded.has(Number(head.dataset.n));
      row.classList.toggle("dup", hides);
      if (hides) more += 1;
      else if (!alike) {
        close();
        head = text ? row : null;
        if (head) head.said = text;
      }
    }
    close();
  }

  topRow() {
    const top = this.box.scrollTop;
    return [...this.rows.children].find((row) => row.offsetTop + row.offsetHeight > top) || null;
  }

  /** Lines came: `found` has those that the stream brought, and the new total. */
  grew(found) {
    const missing = found.items.length === 0 || found.at !== this.at + this.count;
    this.total = found.total;
    this.live = found.live;
    if (!this.follow) {
      this.resizePads();
      this.frame();
      return;
    }
    if (missing) {
      this.toEnd();
      return;
    }
    for (const line of found.items) this.rows.append(this.row(line));
    this.count += found.items.length;
    const over = this.count - WINDOW;
    if (over > 0) {
      for (let index = 0; index < over; index++) this.rows.firstElementChild?.remove();
      this.at += over;
      this.count -= over;
    }
    this.fold();
    this.resizePads();
    this.box.scrollTop = this.box.scrollHeight;
    $("#log-total", this.card).textContent = `${many(found.total, "line")}, ${many(found.errors, "error")}; all kept`;
    this.frame();
  }

  async toEnd() {
    if (this.at + this.count < this.total || this.count < Math.min(WINDOW, this.total)) await this.load(this.total - WINDOW);
    this.box.scrollTop = this.box.scrollHeight;
  }

  /** Bring a line on screen, at a share of the height. */
  async show(number, share = 0.3) {
    this.setFollow(false);
    if (!$(`[data-n="${number}"]`, this.rows)) await this.load(number - WINDOW / 2);
    const row = $(`[data-n="${number}"]`, this.rows);
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
    const top = this.rows.offsetTop;
    const bottom = top + this.rows.offsetHeight;
    const early = scrollTop < top + MARGIN * LINE && this.at > 0;
    const late = scrollTop + clientHeight > bottom - MARGIN * LINE && this.at + this.count < this.total;
    if ((!early && !late) || this.loading) return;
    this.loading = true;
    const inside = scrollTop >= top && scrollTop <= bottom;
    const first = inside ? Number(this.topRow()?.dataset.n ?? this.at) : Math.floor(scrollTop / this.unit);
    const answered = await this.load(Math.max(0, first - WINDOW / 2 + 15));
    this.loading = false;
    if (answered && this.box.scrollTop !== scrollTop && !inside) this.scrolled();
  }

  /** Frame the part on screen in the strip of lines by time. */
  frame() {
    const frame = $("#window", this.card);
    if (!frame || !this.total) return;
    const bars = (this.bars ??= $$("#volume .b", this.card).map((bar) => [Number(bar.dataset.line), Number(bar.getAttribute("x"))]));
    const rows = [...this.rows.children];
    const top = this.box.scrollTop;
    const low = rows.find((row) => row.offsetTop + row.offsetHeight > top);
    const high = rows.findLast((row) => row.offsetTop < top + this.box.clientHeight);
    const at = (number) => bars.findLast(([line]) => line <= number)?.[1] ?? 0;
    const left = at(Number(low?.dataset.n ?? this.at));
    const right = high && Number(high.dataset.n) >= this.total - 1 ? 998 : at(Number(high?.dataset.n ?? this.at)) + 8;
    frame.setAttribute("x", String(left));
    frame.setAttribute("width", String(Math.max(10, right - left)));
  }

  clicked(event) {
    const bar = event.target.closest("#volume");
    if (bar && this.total) {
      const box = bar.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * 1000;
      const found = $$(".b", bar).findLast((each) => Number(each.getAttribute("x")) <= x);
      if (found) this.show(Number(found.dataset.line));
      return;
    }
    const fold = event.target.closest("[data-unfold]");
    if (fold) {
      this.unfolded.add(Number(fold.dataset.unfold));
      this.fold();
      return;
    }
    const chip = event.target.closest("[data-task]");
    if (chip) {
      this.toggleTask(chip.dataset.task, chip.getAttribute("aria-pressed") !== "true");
      const hidden = $$('[data-task][aria-pressed="false"]', this.card).map((each) => each.dataset.task);
      remembered.set("log-hidden", hidden.join(" "));
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
    if (name === "first") this.show(this.context.firstError, 0.5);
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

  toggleTask(name, on) {
    const chip = $$("[data-task]", this.card).find((each) => each.dataset.task === name);
    chip?.setAttribute("aria-pressed", String(on));
    this.box.classList.toggle(`hide-${name === "pumice" ? "t6" : this.context.tasks[name]}`, !on);
  }

  async changed(event) {
    if (!event.target.dataset.choice) return;
    this.card.dataset.pinned = "1";
    this.positions = [];
    this.follow = this.live;
    this.total = Math.max(1, this.total);
    await this.load(this.live ? Number.MAX_SAFE_INTEGER : 0);
    if (this.live) this.toEnd();
    if (this.q) this.search(this.q);
    this.card.dispatchEvent(new CustomEvent("pumice-filter", { bubbles: true }));
  }

  async search(q) {
    this.q = q;
    this.match = -1;
    const escaped = q.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    this.context.pattern = q ? new RegExp(`(${escaped})`, "i") : null;
    this.positions = [];
    const words = $("#matches", this.card);
    if (q) {
      const answer = await ask(`/api/jobs/${this.uid}/logs/search?${this.query({ q })}`);
      if (this.q !== q || !answer?.ok) return;
      const found = await answer.json();
      this.positions = found.positions;
      words.textContent = found.message || many(found.total, "match", "matches");
    } else words.textContent = "";
    await this.load(this.at);
  }

  /** Go to the next match, or the one before. */
  async step(by) {
    if (!this.positions.length) return;
    const here = Number(this.topRow()?.dataset.n ?? 0);
    if (this.match < 0) {
      const next = this.positions.findIndex((each) => each >= here);
      this.match = next < 0 ? 0 : next;
    } else this.match = (this.match + by + this.positions.length) % this.positions.length;
    $(".ln.match", this.rows)?.classList.remove("match");
    await this.show(this.positions[this.match], 0.4);
    $(`[data-n="${this.positions[this.match]}"]`, this.rows)?.classList.add("match");
    $("#matches", this.card).textContent = `${this.match + 1} of ${many(this.positions.length, "match", "matches")}`;
  }

  /** Mark the line on top of the screen, or unmark it. */
  mark() {
    const row = this.topRow();
    if (!row) return;
    const number = Number(row.dataset.n);
    if (!this.marked.delete(number)) this.marked.add(number);
    row.classList.toggle("marked", this.marked.has(number));
  }

  /** Save the chosen lines as text. */
  async download() {
    const parts = [];
    for (let at = 0; at < this.total; ) {
      const answer = await ask(`/api/jobs/${this.uid}/logs?${this.query({ at, lines: 1000 })}`);
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
