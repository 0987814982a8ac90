// Many pods as cells on one canvas. Arrow keys move, enter chooses; the focused cell is described to screen readers.
import { $, $$, ask, say } from "./dom.js";

const CELL = 11;
const STEP = 13;
const GROUPS = { first: "failed", failed: "failed", followed: "failed", running: "running", init: "running", restarting: "running", done: "done", stopped: "stopped" };

export class Cells {
  constructor(canvas, uid, attempt) {
    Object.assign(this, { canvas, uid, attempt, pods: [], mode: "state", here: -1, next: 0 });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.tip(null));
    canvas.addEventListener("click", (event) => this.choose(this.at(event)));
    canvas.addEventListener("blur", () => this.tip(null));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(canvas.parentElement);
    for (const button of $$("[data-cells]")) {
      button.addEventListener("click", () => {
        for (const each of $$("[data-cells]")) each.setAttribute("aria-pressed", String(each === button));
        this.mode = button.dataset.cells;
        this.draw();
      });
    }
    this.load();
  }

  /** Fetch all pods, at most once in two seconds. */
  async load() {
    if (this.loading || performance.now() < this.next) return;
    this.loading = true;
    this.next = performance.now() + 2000;
    const pods = [];
    let after = "";
    do {
      const answer = await ask(`/api/jobs/${this.uid}/pods?${new URLSearchParams({ attempt: this.attempt, after })}`);
      if (!answer?.ok) break;
      const page = await answer.json();
      pods.push(...page.items);
      after = page.items.length ? page.after : "";
    } while (after);
    this.loading = false;
    this.pods = pods;
    this.draw();
  }

  get columns() {
    return Math.max(1, Math.floor((this.canvas.clientWidth - 1) / STEP)); // a frame is wider than its cell
  }

  draw() {
    const { canvas, pods } = this;
    const rows = Math.ceil(pods.length / this.columns);
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${Math.max(1, rows) * STEP}px`;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = Math.max(1, rows) * STEP * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const paint = colours();
    this.odd = new Set(($("#cells-odd")?.dataset.pods || "").split(" ")); // slow or silent
    const most = { CPU: 1e-9, memory: 1, restarts: 1 };
    for (const pod of pods) {
      most.CPU = Math.max(most.CPU, pod.cpu ?? 0);
      most.memory = Math.max(most.memory, pod.memory ?? 0);
      most.restarts = Math.max(most.restarts, pod.restarts);
    }
    // Failed cells come last: their frame stands over their neighbours.
    pods.forEach((pod, index) => GROUPS[pod.state] !== "failed" && this.cell(pen, paint, pod, index, most));
    pods.forEach((pod, index) => GROUPS[pod.state] === "failed" && this.cell(pen, paint, pod, index, most));
    const chosen = pods.findIndex((pod) => pod.pod === canvas.dataset.chosen);
    const focused = document.activeElement === canvas ? this.here : -1;
    pen.globalAlpha = 1;
    pen.strokeStyle = paint.accent;
    pen.lineWidth = 2;
    for (const index of [chosen, focused]) if (index >= 0) pen.strokeRect(...this.corner(index, -1), CELL + 2, CELL + 2);
  }

  corner(index, by = 0) {
    return [(index % this.columns) * STEP + 1 + by, Math.floor(index / this.columns) * STEP + 1 + by];
  }

  cell(pen, paint, pod, index, most) {
    const [x, y] = this.corner(index);
    const group = GROUPS[pod.state] || "waiting";
    pen.globalAlpha = 1;
    if (this.mode !== "state") {
      const value = { CPU: pod.cpu, memory: pod.memory, restarts: pod.restarts }[this.mode];
      pen.strokeStyle = paint.edge;
      pen.lineWidth = 1;
      if (value === null || value === undefined) {
        pen.strokeRect(x + 0.5, y + 0.5, CELL - 1, CELL - 1);
        return;
      }
      pen.globalAlpha = 0.12 + (0.88 * value) / most[this.mode];
      pen.fillStyle = this.mode === "restarts" ? paint.warn : paint.run;
      pen.fillRect(x, y, CELL, CELL);
      return;
    }
    if (group === "running" || group === "failed" || group === "stopped") {
      pen.fillStyle = paint[group];
      pen.fillRect(x, y, CELL, CELL);
    } else {
      if (group === "done") {
        pen.globalAlpha = 0.22;
        pen.fillStyle = paint.done;
        pen.fillRect(x, y, CELL, CELL);
        pen.globalAlpha = 1;
      }
      pen.strokeStyle = group === "done" ? paint.done : paint.edge;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, CELL - 1, CELL - 1);
    }
    if (group === "running" && this.odd.has(pod.pod)) {
      pen.fillStyle = paint.warn;
      pen.fillRect(x, y + CELL / 2, CELL, CELL / 2);
    }
    if (group === "failed") {
      pen.strokeStyle = paint.failed;
      pen.lineWidth = 1;
      pen.strokeRect(x - 1.5, y - 1.5, CELL + 3, CELL + 3);
      pen.strokeStyle = paint.surface;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(x + 3, y + 3);
      pen.lineTo(x + 8, y + 8);
      pen.moveTo(x + 8, y + 3);
      pen.lineTo(x + 3, y + 8);
      pen.stroke();
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / STEP);
    const index = Math.floor((event.clientY - box.top) / STEP) * this.columns + column;
    return column < this.columns && index < this.pods.length ? index : -1;
  }

  words(pod) {
    const parts = [pod.pod, pod.state === "first" ? "failed first" : pod.state];
    if (this.odd.has(pod.pod)) parts.push("slow or silent");
    if (pod.exit) parts.push(pod.exit);
    if (pod.restarts) parts.push(`${pod.restarts} restarts`);
    if (pod.lastLine) parts.push(pod.lastLine);
    return parts.join(", ");
  }

  point(event) {
    this.tip(this.at(event), event.clientX, event.clientY);
  }

  tip(index, x = 0, y = 0) {
    const tip = $("#tip");
    const pod = this.pods[index ?? -1];
    tip.hidden = !pod;
    if (!pod) return;
    tip.textContent = this.words(pod);
    tip.style.left = `${Math.min(x + 10, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${y + 14}px`;
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }[event.key];
    if (event.key === "Enter") this.choose(this.here);
    if (!step || !this.pods.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.here = this.here < 0 ? 0 : Math.max(0, Math.min(this.pods.length - 1, this.here + step));
    this.draw();
    say(this.words(this.pods[this.here]));
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.corner(this.here);
    this.tip(this.here, box.left + x, box.top + y);
  }

  choose(index) {
    const pod = this.pods[index];
    if (pod) this.canvas.dispatchEvent(new CustomEvent("pumice-pod", { bubbles: true, detail: pod.pod }));
  }
}

/** The colours of the theme, as the browser computes them. */
function colours() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const found = {};
  const names = { running: "--bar", run: "--run", done: "--ok", failed: "--fail", stopped: "--stop", edge: "--edge", surface: "--surface", accent: "--accent", warn: "--warn" };
  for (const [name, variable] of Object.entries(names)) {
    probe.style.color = `var(${variable})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}
