// Theme, keys and live figures of the console. Every page works without it.
(() => {
  const root = document.documentElement, keep = localStorage;
  const $ = s => document.querySelector(s), all = s => [...document.querySelectorAll(s)];
  if (!root.dataset.theme && keep.getItem("theme")) root.dataset.theme = keep.getItem("theme");
  const theme = () => {
    const next = { undefined: "light", light: "dark" }[root.dataset.theme];
    if (next) { root.dataset.theme = next; keep.setItem("theme", next); } else { delete root.dataset.theme; keep.removeItem("theme"); }
  };
  let source, held = false, waiting = {};
  const swap = (id, html) => {
    if (id === "title") { document.title = html; return; }
    const old = document.getElementById(id);
    if (!old) return;
    const can = "a, button, tr[tabindex]", seen = new Set([...old.querySelectorAll("[data-is]")].map(e => e.dataset.is));
    const at = [...old.querySelectorAll(can)].indexOf(document.activeElement);
    old.outerHTML = html;
    const now = document.getElementById(id);
    now?.querySelectorAll("[data-is]").forEach(e => seen.has(e.dataset.is) || e.classList.add("fresh"));
    if (at >= 0) now?.querySelectorAll(can)[at]?.focus();
  };
  const take = () => { for (const id in waiting) swap(id, waiting[id]); waiting = {}; };
  const listen = () => {
    source?.close();
    if (document.hidden || !document.body.dataset.stream) return;
    source = new EventSource(document.body.dataset.stream);
    source.addEventListener("swap", e => { Object.assign(waiting, JSON.parse(e.data)); if (!held) take(); });
  };
  addEventListener("DOMContentLoaded", () => {
    const live = $(".live"), on = $("#keys-on");
    const hold = () => { held = !held; live.ariaPressed = held; live.textContent = held ? "held" : "live"; if (!held) take(); };
    const row = step => { const rows = all("tr[tabindex]"), at = rows.indexOf(document.activeElement.closest("tr[tabindex]")); (rows[at + step] || rows[Math.max(at, 0)])?.focus(); };
    const open = () => document.activeElement.matches("tr") && document.activeElement.querySelector("a")?.click();
    const act = { "/": () => $(".jump input").focus(), "?": () => $("#keys").showModal(), ".": hold, t: theme, j: () => row(1), k: () => row(-1), Enter: open };
    let lead = 0;
    addEventListener("keydown", e => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea, dialog *") || !on.checked) return;
      const page = { o: "/", j: "/jobs" }[e.key];
      if (Date.now() - lead < 1000 && page) { location.href = page; return; }
      lead = e.key === "g" ? Date.now() : 0;
      if (act[e.key]) { if (e.key !== "Enter") e.preventDefault(); act[e.key](); }
    });
    live.onclick = hold; $(".theme").onclick = theme;
    on.checked = keep.getItem("keys") !== "off"; on.onchange = () => keep.setItem("keys", on.checked ? "on" : "off");
    document.addEventListener("visibilitychange", listen);
    listen();
  });
})();
