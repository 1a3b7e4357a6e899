// Figures are made anew while somebody looks at them. Without this file a page is as it was when it was made.
"use strict";
(() => {
  const main = document.getElementById("main"), said = document.getElementById("stale");
  const LONGEST = 10_000;
  // what users may be at, and what other scripts of ours make
  const KEPT = "form,button,input,select,textarea,.cli,[role=status],[role=alert]";

  const selected = node => {
    const chosen = getSelection();
    return !chosen.isCollapsed && chosen.containsNode(node, true);
  };
  const busy = node => node.contains(document.activeElement) || selected(node);

  // -- which of the nodes of before a node is

  const key = node => {
    if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
    if (node.matches("tr")) {
      return node.dataset.row || node.querySelector("a")?.getAttribute("href") || node.cells[0]?.textContent || "";
    }
    return node.id || node.getAttribute("aria-labelledby") || node.nodeName;
  };
  const keyed = nodes => {
    const seen = new Map();
    return [...nodes].map(node => {
      const name = key(node), nth = seen.get(name) ?? 0;
      seen.set(name, nth + 1);
      return [`${nth} ${name}`, node];
    });
  };

  // -- from the nodes of before to those of now: they stay the same nodes, so focus, selection and scrolling stay

  const sync = (old, next) => {
    if (old.isEqualNode(next)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (!selected(old)) old.data = next.data;
      return;
    }
    if (old.matches(KEPT)) return;
    // who has gone to a link gets where it led to
    if (old === document.activeElement && old.getAttribute("href") !== next.getAttribute("href")) return;
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const name of old.getAttributeNames()) if (name !== "open" && !next.hasAttribute(name)) old.removeAttribute(name);
    (old.matches("tbody:not([data-all])") ? rows : children)(old, next);
  };

  const children = (old, next) => {
    const before = new Map(keyed([...old.childNodes].filter(node => !node.dataset?.own)));
    const now = keyed(next.childNodes), names = new Set(now.map(([name]) => name));
    const stays = new Set([...old.childNodes].filter(node => node.dataset?.own));
    for (const [name, node] of before) {
      if (names.has(name)) continue;
      if (busy(node)) stays.add(node);
      else node.remove();
    }
    let at = old.firstChild;
    for (const [name, node] of now) {
      while (stays.has(at)) at = at.nextSibling;
      const kept = before.get(name);
      if (!kept) {
        old.insertBefore(document.importNode(node, true), at);
        continue;
      }
      if (kept === at) at = at.nextSibling;
      else old.insertBefore(kept, at);
      sync(kept, node);
    }
  };

  // No row goes, comes or moves under somebody's hand: a line above says that there are others.
  const rows = (old, next) => {
    const gone = new Map(keyed(old.rows));
    let fresh = 0;
    for (const [name, node] of keyed(next.rows)) {
      const kept = gone.get(name);
      if (!kept) fresh += 1;
      else if (gone.delete(name)) sync(kept, node);
    }
    const box = old.closest(".scroll") ?? old.parentElement;
    const above = box.previousElementSibling?.dataset.own ? box.previousElementSibling : null;
    if (!fresh && !gone.size) {
      if (above && !busy(above)) above.remove();
      return;
    }
    const line = above ?? Object.assign(document.createElement("p"), { className: "news" });
    if (!above) {
      line.dataset.own = "news";
      line.append(Object.assign(document.createElement("a"), { href: location.pathname + location.search }));
      box.before(line);
    }
    const words = [fresh && `${fresh} more`, gone.size && `${gone.size} not there any more`].filter(each => each);
    line.firstChild.textContent = `${words.join(", ")}: look again`;
  };

  // -- asking

  let tag = "", made = said.dataset.asOf, timer = 0, asks = false;

  const take = text => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const nav = page.querySelector("nav[aria-label=Main]"), next = page.getElementById("main");
    if (nav) sync(document.querySelector("header nav"), nav);
    if (next) sync(main, next);
    dispatchEvent(new Event("anew"));
  };

  const ask = async () => {
    const address = new URL(location.href), left = new AbortController();
    address.searchParams.set("part", "live");
    const limit = setTimeout(() => left.abort(), LONGEST);
    try {
      const answer = await fetch(address, {
        cache: "no-store", signal: left.signal, headers: tag ? { "If-None-Match": tag } : {},
      });
      if (answer.redirected) return "what is new shows after a login";
      if (answer.status !== 304) {
        if (answer.status === 404) return "it is not there any more";
        if (!answer.ok) return `the gateway answers ${answer.status} now`;
        take(await answer.text());
        tag = answer.headers.get("ETag") ?? "";
      }
      made = answer.headers.get("X-As-Of") ?? made;
      return "";
    } catch {
      return "the gateway does not answer";
    } finally {
      clearTimeout(limit);
    }
  };

  const look = async () => {
    clearTimeout(timer);
    if (document.hidden || asks) return;
    asks = true;
    const wrong = await ask();
    asks = false;
    if (!wrong) document.getElementById("made").textContent = `as of ${made}`;
    const says = wrong && `As of ${made}: ${wrong}.`;
    if (said.textContent !== says) said.textContent = says;
    later();
    dispatchEvent(new Event("looked"));
  };

  // what is over has no `data-live` any more
  const later = () => {
    const seconds = Number(main.dataset.live);
    if (seconds) timer = setTimeout(look, seconds * 1000);
  };
  addEventListener("visibilitychange", () => { if (!document.hidden && main.dataset.live) look(); });
  later();
})();
