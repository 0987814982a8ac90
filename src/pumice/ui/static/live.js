// One stream of changes for the page. A page in the background closes it; after 5 s without a beat a banner says so.
import { $, make } from "./dom.js";

const SILENT = 5000;
const KINDS = ["jobs", "job", "pod", "phase", "event", "metric"];

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
    this.beat = performance.now();
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
    const live = $("#live");
    live.classList.remove("off");
    if ($("span", live).textContent !== "live") $("span", live).textContent = "live";
  }

  check() {
    if (document.hidden) return;
    if (performance.now() - this.beat < SILENT) return;
    if (!this.down) {
      this.down = true;
      document.body.classList.add("stale");
      $("#live").classList.add("off");
      $("#live span").textContent = "not reachable";
      const again = make("button.btn", { type: "button" }, "Try now");
      again.addEventListener("click", () => this.open(true));
      const words = make("div", {}, make("b.c-fail", {}, "pumice ui does not answer. "), `This is the state at ${this.since.toTimeString().slice(0, 8)}. Jobs do not need this page to go on. Buttons are off until it answers.`);
      $("#banner").replaceChildren(make("div.banner", {}, words, make("span.copy", {}, make("code", {}, "pumice ui")), again));
    }
    if (!this.source || this.source.readyState === EventSource.CLOSED) this.open(false);
  }
}
