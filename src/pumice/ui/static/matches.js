// The search in a log. The server finds the lines; this steps through them, and shows only them if that is chosen.
import { $, ask } from "./dom.js";
import { many } from "./words.js";

export class Matches {
  constructor(logs) {
    this.logs = logs;
    this.words = $("#matches", logs.card);
    this.choice = $("#only", logs.card);
    this.q = $("#search", logs.card)?.value || "";
    this.only = Boolean(this.choice?.checked && this.q);
    this.positions = [];
    this.total = 0; // positions may have fewer
    this.here = -1;
  }

  /** The number of the line on which the reader is. */
  get current() {
    return this.positions[this.here];
  }

  forget() {
    this.positions = [];
  }

  async search(q) {
    const { logs } = this;
    this.q = q;
    this.here = -1;
    const had = this.only;
    this.only = Boolean(q && this.choice.checked);
    const escaped = q.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    logs.context.pattern = q ? new RegExp(`(${escaped})`, "i") : null;
    this.positions = [];
    if (q) {
      const answer = await ask(`/api/jobs/${logs.uid}/logs/search?${logs.query({ q })}`);
      if (this.q !== q || !answer?.ok) return;
      const found = await answer.json();
      this.positions = found.positions;
      this.total = found.total;
      this.words.textContent = found.message || many(found.total, "match", "matches");
    } else this.words.textContent = "";
    const top = had === this.only ? logs.at : this.only ? 0 : Number(logs.topRow()?.dataset.n ?? 0);
    if (had !== this.only) logs.total = Math.max(1, this.only ? this.total : top + 1);
    await logs.load(top);
  }

  /** Search again, at most once a second: lines came. */
  soon() {
    this.again ??= setTimeout(async () => {
      this.again = null;
      if (!this.only) return;
      await this.search(this.q);
      if (this.logs.follow) this.logs.toEnd();
    }, 1000);
  }

  /** Show all lines again, unless a line is among those with a match. */
  async include(number) {
    if (!this.only || this.positions.includes(number)) return;
    this.choice.checked = false;
    await this.search(this.q);
  }

  /** Go to the next match, or the one before. */
  async step(by) {
    const { logs, positions } = this;
    if (!positions.length) return;
    const top = Number(logs.topRow()?.dataset.n ?? 0);
    if (this.here < 0) {
      const next = by > 0 ? positions.findIndex((each) => each >= top) : positions.findLastIndex((each) => each < top);
      this.here = next >= 0 ? next : by > 0 ? 0 : positions.length - 1;
    } else this.here = (this.here + by + positions.length) % positions.length;
    $(".ln.match", logs.rows)?.classList.remove("match");
    await logs.show(this.current, 0.4);
    $(`[data-n="${this.current}"]`, logs.rows)?.classList.add("match");
    this.words.textContent = `${(this.here + 1).toLocaleString("en")} of ${many(this.total, "match", "matches")}`;
  }
}
