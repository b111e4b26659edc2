// Polls the list and shows changes, except while the person uses an entry of it.
import count from "./countdown.js";
import localise from "./localtime.js";

const EVERY_MS = 10_000;
const TOKEN = "[name=csrf]";

// Polls leave out `lang`: it would set the language again each time.
function address() {
  const here = new URL(location.href);
  here.searchParams.delete("lang");
  return here.href;
}

export default function refresh(list) {
  let looking = false;

  async function look({ anew = false } = {}) {
    if (looking || document.hidden || list.matches(":active")) return;
    looking = true;
    try {
      const reply = await fetch(address(), {
        headers: { "if-none-match": list.dataset.inbox },
        cache: "no-store",
        credentials: "same-origin",
      });
      if (reply.status === 200) show(new DOMParser().parseFromString(await reply.text(), "text/html"), anew);
    } catch {
      // The network or the server failed. Try again at the next poll.
    } finally {
      looking = false;
    }
  }

  // After a sign-out, a sign-in as another person or a change of language, the whole page is loaded again.
  function isOther(page) {
    if (page.getElementById("f-key")) return true;
    const [ours, theirs] = [document, page].map((one) => one.querySelector(TOKEN)?.value);
    return Boolean(theirs) && (ours !== theirs || page.documentElement.lang !== document.documentElement.lang);
  }

  // Return the element of the new list that corresponds to the focused one.
  function kept(now) {
    const held = document.activeElement;
    return [...now.querySelectorAll("button, a")].find((one) => one.value === held.value && one.href === held.href);
  }

  function show(page, anew) {
    if (isOther(page)) return location.replace(address());
    const now = page.querySelector("[data-inbox]");
    const isHeld = list.contains(document.activeElement);
    const next = now && isHeld ? kept(now) : null;
    if (!now || list.matches(":active") || (isHeld && !next && !anew)) return;
    list.dataset.inbox = now.dataset.inbox;
    list.replaceChildren(...now.children);
    next?.focus({ preventScroll: true });
    list.querySelectorAll("[data-away]").forEach(count);
    list.querySelectorAll("[data-local]").forEach(localise);
    const told = document.querySelector("[data-told]");
    if (told) told.textContent = told.dataset.told;
  }

  setInterval(() => look(), EVERY_MS);
  document.addEventListener("visibilitychange", () => look());
  window.addEventListener("pageshow", (event) => event.persisted && look({ anew: true }));
}
