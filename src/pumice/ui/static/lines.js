// Draws one line of a log, as `html/logs.py` does: text only; of escape sequences only colours; other control and
// direction characters as tags.
import { make } from "./dom.js";
import { many, offset } from "./words.js";

const SGR = /\x1b\[([0-9;]{0,40})m/g;
const HIDDEN =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff]/gu;
const NAMES = "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");

function characterName(character) {
  const code = character.codePointAt(0);
  if (code < NAMES.length) return NAMES[code];
  return code === 0x7f ? "DEL" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Append text to an element, with hidden characters as tags. */
export function appendText(parent, text) {
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > at) parent.append(text.slice(at, match.index));
    parent.append(make("span.ctl", {}, characterName(match[0])));
    at = match.index + match[0].length;
  }
  if (at < text.length) parent.append(text.slice(at));
}

function appendMarked(parent, text, pattern) {
  if (!pattern) return appendText(parent, text);
  text.split(pattern).forEach((piece, index) => {
    if (!piece) return;
    const target = index % 2 ? make("mark") : parent;
    appendText(target, piece);
    if (target !== parent) parent.append(target);
  });
}

function styled(style, codes) {
  for (const code of codes.split(";")) {
    const value = Number(code || "0");
    if (value === 0) style = [];
    else if (value === 1 || value === 2) style = [...style, value === 1 ? "a-b" : "a-d"];
    else if (value === 22) style = style.filter((each) => each !== "a-b" && each !== "a-d");
    else if ((value >= 30 && value < 38) || (value >= 90 && value < 98) || value === 39) {
      style = style.filter((each) => !each.startsWith("a-c"));
      if (value !== 39) style = [...style, `a-c${value % 10}`];
    } else if (value === 38 || value === 48) return style;
  }
  return style;
}

/** Append the text of a line, with its colours and with matches of `pattern` marked. */
export function appendMessage(parent, text, pattern = null) {
  let at = 0;
  let style = [];
  const add = (piece) => {
    if (!piece) return;
    const target = style.length ? make(`span.${style.join(".")}`) : parent;
    appendMarked(target, piece, pattern);
    if (target !== parent) parent.append(target);
  };
  for (const match of text.matchAll(SGR)) {
    add(text.slice(at, match.index));
    style = styled(style, match[1]);
    at = match.index + match[0].length;
  }
  add(text.slice(at));
}

/** One line as an element. `context` has begin, firstError, tasks (name to class) and pattern. */
export function lineRow(line, context) {
  if (line.kind === "gap") {
    const gap = make("div.trunc", { "data-n": line.number });
    appendText(gap, line.text);
    return gap;
  }
  const first = line.number === context.firstError;
  const own = line.kind !== "line";
  const classes = own ? ["sys", "t6"] : [context.tasks[line.task] || "t1"];
  if (first) classes.push("first");
  else if (line.error) classes.push("err");
  const time = line.time ? new Date(line.time) : null;
  const words = time && context.begin ? offset((time - context.begin) / 1000) : "";
  const row = make(`div.ln.${classes.join(".")}`, { "data-n": line.number, "data-task": own ? null : line.task, id: first ? "first" : null });
  const clock = time ? time.toTimeString().slice(0, 8) : null;
  const prefix = make("span.pf");
  appendText(prefix, line.pod || "pumice");
  const message = make("span.msg");
  if (own) appendText(message, line.text);
  else appendMessage(message, line.text, context.pattern);
  const folded = line.redraws ? many(line.redraws, "redraw") : line.cut ? `${line.cut.toLocaleString("en")} bytes,` : "";
  if (folded) message.append(make("button.fold-n", { type: "button", "data-whole": line.number }, `${folded} folded · show`));
  const gutter = first ? "×" : line.error || line.stream === "stderr" ? "err" : "";
  row.append(make("span.gm", {}, gutter), make("span.ts", { title: clock }, words), prefix, message);
  return row;
}
