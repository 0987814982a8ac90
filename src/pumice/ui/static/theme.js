// Runs before the page is drawn: marks the page as scripted, and sets the chosen theme.
"use strict";

document.documentElement.classList.add("js");
try {
  const chosen = localStorage.getItem("pumice-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is off: the theme of the system holds.
}
