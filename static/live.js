// Keeps a page true: the event socket says that something changed, regions of the page then ask the server again.
// While there is no socket, they ask every few seconds. What is shown, and how old it is, is always said.
"use strict";
(() => {
  const LEAST_MS = 1000, STILL_MS = 15000, POLL_MS = 5000, RETRY_MS = 1000, RETRY_MOST_MS = 30000;
  const line = document.getElementById("live-state");
  if (!line || !document.querySelector("[hx-get]")) return;
  const state = line.querySelector(".state"), age = line.querySelector(".age"), said = document.getElementById("live-said");

  let socket = null, connected = false, retries = 0;
  let changed = false, asked = 0, took = 0, updated = Date.now(), failing = false, away = false;

  const WORDS = { live: "Live", poll: "No live updates, asking every 5 s", stale: "The server does not answer", away: "Redis does not answer" };

  function show() {
    const now = away ? "away" : failing ? "stale" : connected ? "live" : "poll";
    if (line.dataset.state !== now) {
      // The first connection is nothing to announce.
      if (line.dataset.state !== "still" || now !== "live") said.textContent = WORDS[now];
      line.dataset.state = now;
      state.textContent = WORDS[now];
    }
    const seconds = Math.floor((Date.now() - updated) / 1000);
    const text = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
    age.textContent = `· updated ${text} ago`;
  }

  function refresh() {
    changed = false;
    asked = Date.now();
    document.body.dispatchEvent(new CustomEvent("dtq-refresh"));
  }

  function tick() {
    show();
    if (document.hidden) return;
    const since = Date.now() - asked;
    // A server that takes long is asked less often.
    if (since < Math.max(LEAST_MS, 4 * took)) return;
    if (changed || since >= (connected && !failing && !away ? STILL_MS : POLL_MS)) refresh();
  }

  function connect() {
    const address = new URL(document.body.dataset.events, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    socket = new WebSocket(address);
    socket.onmessage = (message) => {
      const kind = JSON.parse(message.data).type;
      if (kind === "HELLO" && !connected) {
        connected = changed = true;
        retries = 0;
      }
      // The server says itself that its Redis is gone or back.
      if (kind === "REDIS_AWAY" || kind === "REDIS_BACK") away = kind === "REDIS_AWAY";
      if (kind !== "HELLO") changed = true;
      tick();
    };
    socket.onclose = () => {
      connected = away = false;
      changed = true; // Asking tells whether the server is gone too.
      const wait = Math.min(RETRY_MOST_MS, RETRY_MS * 2 ** retries++) * (0.5 + Math.random());
      setTimeout(connect, wait);
      show();
    };
  }

  document.addEventListener("htmx:before:response", (event) => {
    const status = event.detail.ctx.response.status;
    if (status < 400) return;
    event.preventDefault();
    if (status === 401 || status === 403 || status === 404) location.reload();
    failing = status >= 500;
    away = status === 503;
    show();
  });
  document.addEventListener("htmx:after:swap", () => {
    failing = away = false;
    updated = Date.now();
    took = updated - asked;
    document.dispatchEvent(new CustomEvent("dtq-swapped"));
    show();
  });
  document.addEventListener("htmx:error", () => {
    failing = true;
    away = false;
    show();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - updated > LEAST_MS) refresh();
  });
  // A page that comes back out of the browser's memory is as old as it was left.
  window.addEventListener("pageshow", (event) => event.persisted && refresh());

  asked = Date.now();
  connect();
  setInterval(tick, 500);
  show();
})();
