// Looks now and then whether the list has changed, and shows it as it is now; never under a person's hands.
import count from "./countdown.js";
import localise from "./localtime.js";

const EVERY_MS = 10_000;

export default function refresh(list) {
  let looking = false;

  async function look() {
    if (looking || document.hidden || list.contains(document.activeElement)) return;
    looking = true;
    try {
      const reply = await fetch(location.href, {
        headers: { "if-none-match": list.dataset.inbox },
        cache: "no-store",
        credentials: "same-origin",
      });
      if (reply.status === 200) show(new DOMParser().parseFromString(await reply.text(), "text/html"));
    } catch {
      // The next look may find the server again.
    } finally {
      looking = false;
    }
  }

  function show(page) {
    const now = page.querySelector("[data-inbox]");
    if (!now) {
      if (page.getElementById("f-key")) location.reload(); // signed out meanwhile
      return;
    }
    if (list.contains(document.activeElement)) return;
    list.dataset.inbox = now.dataset.inbox;
    list.replaceChildren(...now.children);
    list.querySelectorAll("[data-away]").forEach(count);
    list.querySelectorAll("[data-local]").forEach(localise);
    const told = document.querySelector("[data-told]");
    if (told) told.textContent = told.dataset.told;
  }

  setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pageshow", (event) => event.persisted && look());
}
