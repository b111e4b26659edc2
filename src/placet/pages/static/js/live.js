// Tells what becomes of the question while its page is open, and says one thing at a time.
const CLOSED = ["completed", "cancelled", "expired"];

// Shows the text of this name in place of any other, and gives back its element.
export function say(name, fill) {
  const live = document.querySelector("[data-live]");
  const text = document.querySelector("[data-sayings]")?.content.querySelector(`[data-saying="${name}"]`);
  if (!live || !text) return null;
  const shown = text.cloneNode(true);
  if (fill) fill(shown);
  // That time runs short is only heard; it must not hide what else is to be read.
  live.querySelector('[data-saying="soon"]')?.remove();
  if (name === "soon") live.append(shown);
  else live.replaceChildren(shown);
  return shown;
}

export const hush = () => document.querySelector("[data-live]")?.replaceChildren();

// The question takes no answer any more: what was typed stays, to be read and copied.
export function close(name, fill) {
  document.body.dataset.closed = name;
  for (const button of document.querySelectorAll("main button")) button.disabled = true;
  for (const typed of document.querySelectorAll("main textarea, main input[type=text]")) typed.readOnly = true;
  say(name, fill);
}

export const isClosed = () => Boolean(document.body.dataset.closed);

// An answer of our own is under way, or may have arrived: its reply tells more than any news.
export const isSending = () => Boolean(document.body.dataset.sending || document.body.dataset.unsure);

let source = null;
const leave = () => source?.close();
window.addEventListener("pagehide", leave);

// Without a stream the page works as ever; a lost one comes back by itself.
export default function follow(live) {
  if (!live.dataset.eventsUrl || !window.EventSource) return;
  leave();
  source = new EventSource(live.dataset.eventsUrl);
  for (const status of CLOSED) {
    source.addEventListener(`review.${status}`, () => {
      leave();
      if (!isClosed() && !isSending()) close(status);
    });
  }
}
