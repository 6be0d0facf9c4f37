// Keeps the section #live of an open page current, and gives it a few keys. Every page works without this.
"use strict";
(() => {
  const address = document.body.dataset.live;
  const section = document.getElementById("live");
  const lost = document.getElementById("lost");
  const AGAIN = 5000; // milliseconds until a lost connection is tried again
  const QUIET = 40000; // and until one is given up that says nothing, not even that it is there
  let source = null, again = 0, silence = 0, current = new Date();

  const inUse = () => {
    const selected = document.getSelection();
    return section.contains(document.activeElement) || (selected && !selected.isCollapsed && section.contains(selected.anchorNode));
  };
  const listen = () => {
    clearTimeout(again);
    if (source || !address || !section || document.hidden) return;
    source = new EventSource(address);
    silence = setTimeout(fail, QUIET);
    source.addEventListener("error", fail);
    source.addEventListener("alive", heard);
    source.addEventListener("section", (event) => {
      heard();
      if (inUse()) return; // whoever reads or types there is not disturbed
      const parsed = new DOMParser().parseFromString(JSON.parse(event.data), "text/html");
      const open = new Set([...section.querySelectorAll("details[open]")].map((one) => one.id));
      const scrolled = [...section.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
      section.replaceChildren(...parsed.body.childNodes);
      section.querySelectorAll("details").forEach((one) => { if (open.has(one.id)) one.open = true; });
      section.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
    });
  };
  const leave = () => {
    clearTimeout(again);
    clearTimeout(silence);
    if (source) source.close();
    source = null;
  };
  const fail = () => { // a browser tries again after some errors, and not after others
    leave();
    ask();
  };
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(fail, QUIET);
    current = new Date();
    lost.hidden = true;
    section.classList.remove("lost");
  };
  const tell = (why) => {
    lost.replaceChildren(`This page is as of ${current.toISOString().slice(0, 19).replace("T", " ")} UTC and no longer live: ${why}`);
    lost.hidden = false;
    section.classList.add("lost");
  };
  const ask = async () => { // an EventSource does not say what was answered
    again = setTimeout(listen, AGAIN);
    const asked = new AbortController();
    setTimeout(() => asked.abort(), AGAIN);
    try {
      const answer = await fetch(address, {signal: asked.signal});
      if (answer.status === 401) {
        clearTimeout(again);
        tell("you are signed out. ");
        const link = document.createElement("a");
        link.href = location.href; // leads to the form, and back here
        lost.append(link);
        link.append("Sign in again");
      } else if (!answer.ok) tell(`the console answers ${answer.status} ${answer.statusText}. It is asked again every few seconds.`);
      else tell("the connection was lost. It is tried again in a few seconds.");
    } catch { // it does not answer, or the page is being left
      tell("the console does not answer. It is asked again every few seconds.");
    }
    asked.abort();
  };
  // A browser has six connections to a server at the most: pages in the background give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) leave(); else listen();
  });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", listen);
  listen();

  const here = document.querySelector("nav.pages a[aria-current]");
  if (here) here.scrollIntoView({block: "nearest", inline: "center"}); // the row of pages scrolls on a narrow screen
  const pages = () => [...document.querySelectorAll("nav.pages div a")];
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
