// Everything works without this file but copying, keys and looking again.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (what, within = document) => [...within.querySelectorAll(what)];

  addEventListener("DOMContentLoaded", () => all("button.copy").forEach(button => { button.hidden = !navigator.clipboard; }));

  addEventListener("click", event => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent).then(() => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1200);
    }, () => {});
  });

  // What is under way is loaded again while somebody looks at it; without this there is a link.
  const again = () => {
    const old = document.querySelector("[data-live]");
    if (!old) return;
    const next = document.hidden || old.contains(document.activeElement) ? Promise.resolve(old) :
      fetch(location.href).then(answer => answer.text()).then(text =>
        new DOMParser().parseFromString(text, "text/html").querySelector(`#${old.id}`));
    next.then(found => {
      if (!found) return;
      if (found !== old) old.replaceWith(found);
      setTimeout(again, 1000);
    }, () => setTimeout(again, 5000));
  };
  setTimeout(again, 1000);

  // Keys: none where they are switched off (WCAG 2.1.4), none in a field.
  let went = 0;
  addEventListener("keydown", event => {
    if (root.dataset.keys === "off" || event.ctrlKey || event.metaKey || event.altKey) return;
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
