// One stream of changes for the page. A page in the background closes it; after 5 s without a beat a banner says so, and
// every second it is tried again.
import { $, ask, make } from "./dom.js";
import { brief } from "./words.js";

const SILENT = 5000;
const KINDS = ["jobs", "job", "pod", "phase", "event", "metric", "notice"];

/** Say whether the page is live: stale or late, its answer is missing. */
export function nameLive() {
  const { classList } = document.body;
  const words = classList.contains("stale") ? "not reachable" : classList.contains("late") ? "waits for the server" : "live";
  const label = $("#live span");
  if (label.textContent !== words) label.textContent = words;
}

export class Live {
  /** `address()` is the stream's; `changed()` is called for changes, `lines(data)` for lines of a log. */
  constructor(address, changed, lines) {
    Object.assign(this, { address, changed, lines, source: null, last: "", beat: performance.now(), down: false, since: new Date() });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open(true)));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.open(true));
    setInterval(() => this.check(), 1000);
    if (!document.hidden) this.open(false);
  }

  open(missed) {
    this.close();
    if (!this.down) this.beat = performance.now();
    const query = this.last ? `&last=${encodeURIComponent(this.last)}` : "";
    this.source = new EventSource(this.address() + query);
    this.source.addEventListener("open", () => this.alive());
    for (const kind of KINDS) this.source.addEventListener(kind, (event) => this.took(event) && this.changed(kind, event));
    this.source.addEventListener("line", (event) => this.took(event) && this.lines(JSON.parse(event.data)));
    this.source.addEventListener("beat", (event) => this.took(event));
    this.source.addEventListener("gone", () => {
      this.close();
      this.changed("gone", null);
    });
    if (missed) this.changed("back", null);
  }

  /** Ask for changes of another choice of lines. */
  restart() {
    this.last = "";
    if (this.source) this.open(false);
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  took(event) {
    if (event.lastEventId) this.last = event.lastEventId;
    this.alive();
    return true;
  }

  alive() {
    this.beat = performance.now();
    this.since = new Date();
    if (this.down) {
      this.down = false;
      document.body.classList.remove("stale");
      $("#banner").replaceChildren();
      this.changed("back", null);
    }
    $("#live").classList.remove("off");
    nameLive();
  }

  check() {
    if (document.hidden) return;
    if (performance.now() - this.beat < SILENT) return;
    if (!this.down) {
      this.down = true;
      document.body.classList.add("stale");
      $("#live").classList.add("off");
      nameLive();
      const again = make("button.btn", { type: "button" }, "Try now");
      again.addEventListener("click", () => this.open(true));
      const command = make("span.copy", {}, make("code", {}, "pumice ui"), make("button.btn.quiet.sm", { type: "button", "data-copy": "", "aria-label": "Copy pumice ui" }, "Copy"));
      $("#banner").replaceChildren(make("div.banner", {}, make("div", {}, make("b.c-fail", { id: "away" }), make("span", { id: "as-of", "aria-live": "off" })), command, again));
      this.refused = false;
    }
    const words = `This is the state at ${this.since.toTimeString().slice(0, 8)}, ${brief((Date.now() - this.since) / 1000)} ago. Jobs do not need this page to go on. Buttons are off until it answers.`;
    const reason = this.refused ? "This page needs its token: pumice ui was started again. Open the address that it printed. " : "pumice ui does not answer. ";
    if ($("#away").textContent !== reason) $("#away").textContent = reason;
    $("#as-of").textContent = words;
    if (this.source && this.source.readyState !== EventSource.CLOSED) return;
    this.explain();
    this.open(false);
  }

  /** Ask whether there is another server at this address, which does not know this browser. */
  async explain() {
    const answer = await ask("/api/info");
    this.refused = answer?.status === 403;
  }
}
