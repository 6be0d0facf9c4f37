// Keeps the section #live of an open page current, and gives it a few keys. Every page works without this.
"use strict";
(() => {
  const address = document.body.dataset.live;
  const section = document.getElementById("live");
  let source = null;

  const inUse = () => {
    const selected = document.getSelection();
    return section.contains(document.activeElement) || (selected && !selected.isCollapsed && section.contains(selected.anchorNode));
  };
  const listen = () => {
    if (source || !address || !section || document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("section", (event) => {
      if (inUse()) return; // whoever reads or types there is not disturbed
      const parsed = new DOMParser().parseFromString(JSON.parse(event.data), "text/html");
      const open = new Set([...section.querySelectorAll("details[open]")].map((one) => one.id));
      const scrolled = [...section.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
      section.replaceChildren(...parsed.body.childNodes);
      section.querySelectorAll("details").forEach((one) => { if (open.has(one.id)) one.open = true; });
      section.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
    });
  };
  // A browser has six connections to a server at the most: pages in the background give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) { source.close(); source = null; } else listen();
  });
  addEventListener("pagehide", () => { if (source) { source.close(); source = null; } });
  addEventListener("pageshow", listen);
  listen();

  const pages = () => [...document.querySelectorAll("nav.pages a")];
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const at = pages().findIndex((one) => one.hasAttribute("aria-current"));
    const go = {
      "/": () => document.querySelector("input[type=search]"),
      "n": () => document.querySelector("a[rel=next]"),
      "p": () => document.querySelector("a[rel=prev]"),
      "]": () => pages()[at + 1],
      "[": () => pages()[at - 1],
    }[event.key];
    const target = go && go();
    if (!target) return;
    event.preventDefault();
    if (target.tagName === "A") target.click(); else target.focus();
  });
  document.addEventListener("change", (event) => { // the box in the head of a table ticks all of its rows
    if (event.target.matches("thead input[type=checkbox]")) {
      event.target.closest("table").querySelectorAll("tbody input[type=checkbox]").forEach((one) => { one.checked = event.target.checked; });
    }
  });
})();
