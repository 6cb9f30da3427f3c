// What makes pages quicker for those who have scripts: single keys, words for the search line, ticking all rows, copying.
"use strict";
(() => {
  const GO_MS = 1500, KEPT = "dtq-keys";
  const dialog = document.getElementById("keys"), toggle = document.getElementById("keys-on");
  const opener = document.getElementById("show-keys");
  const rows = () => [...document.querySelectorAll("table.list tbody tr")];
  let going = 0;

  function reveal() {
    for (const each of document.querySelectorAll("[data-all], [data-copy], [data-copy-text]")) each.hidden = false;
  }

  function step(by) {
    const all = rows(), at = all.indexOf(document.activeElement?.closest("tr"));
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    next?.querySelector("a.open, a, button")?.focus();
  }

  function press(key) {
    if (Date.now() - going < GO_MS) {
      going = 0;
      document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`)?.click();
      return true;
    }
    const actions = {
      "/": () => document.querySelector("[data-search]")?.select(),
      "?": () => dialog.showModal(),
      g: () => (going = Date.now()),
      j: () => step(1),
      k: () => step(-1),
      n: () => document.querySelector("[data-newer]")?.click(),
      x: () => document.activeElement?.closest("tr")?.querySelector("input[name=task]")?.click(),
    };
    actions[key]?.();
    return key in actions;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialog.open || !toggle.checked) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    if (press(event.key)) event.preventDefault();
  });

  // A browser offers whole values: each word is offered behind those that the line has already.
  document.addEventListener("input", (event) => {
    const words = event.target.matches("[data-search][list]") ? event.target.list.options : [];
    const before = words.length ? event.target.value.replace(/\S*$/, "") : "";
    for (const each of words) each.value = before + each.dataset.word;
  });

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form.rows"), all = form?.querySelector("[data-all]");
    if (!all) return;
    const ticks = [...form.querySelectorAll("input[name=task]")];
    if (event.target === all) for (const each of ticks) each.checked = all.checked;
    const many = ticks.filter((each) => each.checked).length;
    all.checked = many > 0 && many === ticks.length;
    all.indeterminate = many > 0 && many < ticks.length;
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-text]");
    if (!button) return;
    const text = button.dataset.copyText ?? (await (await fetch(button.dataset.copy)).text());
    await navigator.clipboard.writeText(text);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  });

  // One open menu at a time, and none when the pointer goes elsewhere or Escape is pressed.
  const menus = "details.pick[open], details.confirm[open]";
  document.addEventListener("click", (event) => {
    for (const each of document.querySelectorAll(menus)) if (!each.contains(event.target)) each.open = false;
  });
  document.addEventListener("keyup", (event) => {
    const open = document.querySelector(menus);
    if (event.key !== "Escape" || !open) return;
    open.open = false;
    open.querySelector("summary").focus();
  });

  toggle.checked = localStorage.getItem(KEPT) !== "off";
  toggle.addEventListener("change", () => localStorage.setItem(KEPT, toggle.checked ? "on" : "off"));
  opener.hidden = false;
  opener.addEventListener("click", () => dialog.showModal());
  document.addEventListener("dtq-swapped", reveal);
  reveal();
})();
