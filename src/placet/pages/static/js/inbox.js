// Looks now and then whether the list has changed, and shows it as it is now; never under a person's hands.
import count from "./countdown.js";
import localise from "./localtime.js";

const EVERY_MS = 10_000;
const TOKEN = "[name=csrf]";

// The language in an address is chosen by whoever follows it, and not again by each look.
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
      // The next look may find the server again.
    } finally {
      looking = false;
    }
  }

  // Signed out meanwhile, signed in as somebody else, or in another language: then all of the page is another.
  function isOther(page) {
    if (page.getElementById("f-key")) return true;
    const [ours, theirs] = [document, page].map((one) => one.querySelector(TOKEN)?.value);
    return Boolean(theirs) && (ours !== theirs || page.documentElement.lang !== document.documentElement.lang);
  }

  // What has the focus, as it is in the new list.
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
