// Runs before the page is drawn: says that there is a script, and sets the theme that was chosen.
"use strict";

document.documentElement.classList.add("js");
try {
  const chosen = localStorage.getItem("pumice-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is off: the theme of the system holds.
}
