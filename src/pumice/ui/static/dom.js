// Small helpers, and `morph`: makes one tree like another with as few changes as possible, so that focus, scroll
// positions and selections stay.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element with classes, attributes and children. Strings become text, never markup. */
export function make(selector, attributes = {}, ...children) {
  const [name, ...classes] = selector.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const remembered = {
  get(key) {
    try {
      return localStorage.getItem(`pumice-${key}`);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(`pumice-${key}`, value);
    } catch {
      // Storage is off: the choice holds until the page is left.
    }
  },
};

/** Say something to screen readers. */
export function say(words) {
  $("#said").textContent = words;
}

/** Attributes that the script owns. */
const OWN = new Set(["aria-pressed", "open"]);

/** Make `from` like `to`. Elements for which `keep` is true stay as they are. */
export function morph(from, to, keep = () => false) {
  if (keep(from, to)) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !OWN.has(name)) from.removeAttribute(name);
  }
  for (const { name, value } of [...to.attributes]) {
    if (!OWN.has(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  let here = from.firstChild;
  for (const want of [...to.childNodes]) {
    const match = partner(here, want, from);
    if (match === null) {
      from.insertBefore(want.cloneNode(true), here);
      continue;
    }
    if (match !== here) from.insertBefore(match, here);
    else here = here.nextSibling;
    if (match.nodeType === Node.ELEMENT_NODE) morph(match, want, keep);
    else if (match.data !== want.data) match.data = want.data;
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

/** The child of `parent` that stands for `want`: the one with the same id, else the next one of the same kind. */
function partner(here, want, parent) {
  if (want.id) {
    const same = parent.querySelector(`:scope > [id="${CSS.escape(want.id)}"]`);
    return same && same.nodeName === want.nodeName ? same : null;
  }
  return here && here.nodeName === want.nodeName && !here.id ? here : null;
}

/** Text of a page of this server as a document. Its scripts do not run. */
export const parse = (text) => new DOMParser().parseFromString(text, "text/html");

/** Ask the server; null if it does not answer. */
export async function ask(url, options = {}) {
  try {
    return await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    return null;
  }
}
