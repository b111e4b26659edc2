// Shows changes of the case while its page is open, one message at a time.
const CLOSED = ["completed", "cancelled", "expired"];

// Show the message of this name instead of any other, and return its element.
export function say(name, fill) {
  const live = document.querySelector("[data-live]");
  const text = document.querySelector("[data-sayings]")?.content.querySelector(`[data-saying="${name}"]`);
  if (!live || !text) return null;
  const shown = text.cloneNode(true);
  if (fill) fill(shown);
  // The warning that time runs out is only announced: it must not hide another message.
  live.querySelector('[data-saying="soon"]')?.remove();
  if (name === "soon") live.append(shown);
  else live.replaceChildren(shown);
  return shown;
}

export const hush = () => document.querySelector("[data-live]")?.replaceChildren();

// Close the form: the case takes no answer any more. What was typed can still be read and copied.
export function close(name, fill) {
  document.body.dataset.closed = name;
  for (const button of document.querySelectorAll("main button")) button.disabled = true;
  for (const typed of document.querySelectorAll("main textarea, main input[type=text]")) typed.readOnly = true;
  say(name, fill);
}

export const isClosed = () => Boolean(document.body.dataset.closed);

// While an answer of this page is being sent, or may have arrived, its reply is shown instead of events.
export const isSending = () => Boolean(document.body.dataset.sending || document.body.dataset.unsure);

let source = null;
const leave = () => source?.close();
window.addEventListener("pagehide", leave);

// Without a stream the page still works. The browser reconnects a lost stream.
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
