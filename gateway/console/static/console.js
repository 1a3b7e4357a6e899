// Everything works without this file but copying and keys.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (what, within = document) => [...within.querySelectorAll(what)];

  const show = () => all("button.copy").forEach(button => { button.hidden = !navigator.clipboard; });
  addEventListener("DOMContentLoaded", show);
  addEventListener("anew", show);

  addEventListener("click", event => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent).then(() => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1200);
    }, () => {});
  });

  // Keys: none where they are switched off (WCAG 2.1.4), none in a field.
  let went = 0;
  addEventListener("keydown", event => {
    if (root.dataset.keys === "off" || event.ctrlKey || event.metaKey || event.altKey) return;
    // out of the field that the key for it led into
    if (event.key === "Escape" && event.target.id === "q") event.target.blur();
    if (event.target.matches("input,textarea,select")) return;
    const rows = all("tr[data-row]"), at = rows.indexOf(document.activeElement.closest("tr"));
    const key = event.key;
    if (went && Date.now() - went < 900) {
      went = 0;
      const link = all("nav a[data-key]").find(each => each.dataset.key === key);
      if (link) location.assign(link.href);
    } else if (key === "/") {
      event.preventDefault();
      document.getElementById("q").focus();
    } else if (key === "j" || key === "k") {
      const row = rows[Math.max(0, Math.min(rows.length - 1, at + (key === "j" ? 1 : -1)))];
      if (row) row.querySelector("a")?.focus();
    } else if (key === "g") {
      went = Date.now();
    }
  });
})();
