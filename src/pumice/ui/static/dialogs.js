// Dialogs that describe an action before it is carried out, and the tooltip.
import { $, ask, make, say } from "./dom.js";

/** Show what an action would do; act when it is confirmed. `begin()` is awaited before, `end(leaves)` is called after it. */
export async function confirmAction(uid, name, begin, end) {
  const url = `/api/jobs/${uid}/actions/${name}`;
  const answer = await ask(url);
  if (!answer?.ok) return notice("The page's server does not answer", "Nothing was changed.");
  const plan = await answer.json();
  if (!plan.allowed) return notice("Not possible now", plan.whyNot);
  const facts = [
    ["now", plan.now],
    ["phase", plan.phases.join(" → ")],
    ["note", plan.remark],
    ["frees", plan.frees],
    ["kept", plan.kept],
    ["same as", plan.command],
  ].filter(([, words]) => words);
  const form = make(
    "form.dlg",
    { method: "dialog" },
    make("h2", { id: "dialog-title" }, plan.title),
    make("ul", {}, ...facts.map(([key, words]) => make("li", {}, make("b", {}, key), make("span", {}, words)))),
    make("div.row", {}, make("button.btn", { value: "cancel", autofocus: true }, "Cancel"), make(`button.btn.${plan.danger ? "danger.solid" : "primary"}`, { value: "act" }, plan.button)),
  );
  if ((await open(form)) !== "act") return;
  await begin();
  end(await act(url));
}

/** Act, and go to the page that shows the result; return whether that is another page. */
async function act(url) {
  const token = $('meta[name="pumice-token"]').content;
  const answer = await ask(url, { method: "POST", headers: { "X-Pumice-Token": token } });
  if (!answer) return !notice("Not done", "The page's server does not answer.");
  const result = await answer.json().catch(() => ({ done: false, message: "Refused: open the page again." }));
  if (!result.done) return !notice("Not done", result.message || result.error || "Refused.");
  say(result.message);
  if (result.uid === document.body.dataset.uid) return false;
  location.assign(result.uid ? `/jobs/${result.uid}` : "/");
  return true;
}

function notice(title, words) {
  const form = make("form.dlg", { method: "dialog" }, make("h2", { id: "dialog-title" }, title), make("p", {}, words), make("div.row", {}, make("button.btn", { value: "cancel" }, "Close")));
  return open(form);
}

function open(form) {
  const dialog = $("#dialog");
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}

/** One element shows all hints, as text. */
export function hints() {
  const tip = $("#tip");
  const show = (event) => {
    const target = event.target.closest?.("[data-tip]");
    if (!target?.dataset.tip) {
      if (event.target.id !== "cells") tip.hidden = true;
      return;
    }
    target.removeAttribute("title");
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    const left = box.left + Math.min(box.width, 60) / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, left))}px`;
    tip.style.top = `${box.top - tip.offsetHeight - 8 > 52 ? box.top - tip.offsetHeight - 8 : box.bottom + 8}px`;
  };
  document.addEventListener("mouseover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("scroll", () => (tip.hidden = true), { capture: true, passive: true });
}
