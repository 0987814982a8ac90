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
    this.field = $("#search", logs.card);
    if (this.field) this.field.maxLength = 300; // the server takes no more
    this.typing = 0;
    this.searching = null;
    this.field?.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.search(this.field.value), 150);
    });
    this.field?.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      this.enter(event.shiftKey ? -1 : 1);
    });
    logs.card.addEventListener("submit", (event) => {
      event.preventDefault(); // by a keyboard on a screen, which may name no key
      this.enter(1);
    });
  }

  /** The number of the line on which the reader is. */
  get current() {
    return this.positions[this.here];
  }

  forget() {
    this.positions = [];
  }

  search(q) {
    this.searching = this.find(q);
    return this.searching;
  }

  async find(q) {
    const { logs } = this;
    this.q = q;
    this.here = -1;
    $(".ln.match", logs.rows)?.classList.remove("match");
    const had = this.only;
    this.only = Boolean(q && this.choice.checked);
    this.positions = [];
    let words = "";
    if (q) {
      const answer = await ask(`/api/jobs/${logs.uid}/logs/search?${logs.query({ q })}`);
      if (this.q !== q || !answer?.ok) return;
      const found = await answer.json();
      this.positions = found.positions;
      this.total = found.total;
      words = found.message || many(found.total, "match", "matches");
    }
    const top = had === this.only ? logs.at : this.only ? 0 : Number(logs.topRow()?.dataset.n ?? 0);
    if (had !== this.only) logs.total = Math.max(1, this.only ? this.total : top + 1);
    await logs.load(top);
    if (this.q === q && this.here < 0) this.words.textContent = words; // what they count is drawn
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

  /** Go to the first match of what the field has, or to the last; on a match, to the next one or the one before. */
  async enter(by) {
    clearTimeout(this.typing);
    const q = this.field.value;
    if (!this.searching || this.q !== q) this.search(q);
    await this.searching;
    if (this.q !== q || !this.positions.length) return;
    if (this.here < 0) await this.go(by > 0 ? 0 : this.positions.length - 1);
    else await this.step(by);
  }

  /** Go to the next match, or the one before; without a match that was chosen, from the top of the screen. */
  async step(by) {
    const { logs, positions } = this;
    if (!positions.length) return;
    const top = Number(logs.topRow()?.dataset.n ?? 0);
    let next = this.here + by;
    if (this.here < 0) next = by > 0 ? positions.findIndex((each) => each >= top) : positions.findLastIndex((each) => each < top);
    if (next < 0 || next >= positions.length) next = by > 0 ? 0 : positions.length - 1;
    await this.go(next);
  }

  async go(position) {
    const { logs } = this;
    this.here = position;
    $(".ln.match", logs.rows)?.classList.remove("match");
    await logs.show(this.current, 0.4);
    $(`[data-n="${this.current}"]`, logs.rows)?.classList.add("match");
    this.words.textContent = `${(this.here + 1).toLocaleString("en")} of ${many(this.total, "match", "matches")}`;
  }
}
