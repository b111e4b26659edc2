// Sends an answer without leaving the page, retries with the same key, and shows the result.
import { enhance } from "./placet.js";
import { forget, look, put } from "./keep.js";
import { close, hush, isClosed, say } from "./live.js";

const PATIENCE_MS = 30_000;
const PAUSES_MS = [2_000, 4_000, 8_000, 16_000, 30_000];
const FINAL = [401, 404, 409, 410];
// Control characters, as in text copied from a terminal. The server refuses answers that contain them.
const UNSEEN = /[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]/g;

// A page may have several forms. Only the form that was submitted last is sent again.
let drop = () => {};

export default function sendHere(form) {
  let body = null; // the request body, as it was when the button was pressed
  let before = new Map(); // the form's values at that time
  let changed = false; // whether the form changed since
  let pressed = null;
  let address = "";
  let tries = 0; // number of attempts that may have reached the server
  let timer = 0;

  function compose(button) {
    const data = new FormData(form);
    if (button?.name) data.append(button.name, button.value);
    return new URLSearchParams([...data].map(([name, value]) => [name, value.replace(UNSEEN, "")]));
  }

  function busy(on) {
    if (on) document.body.dataset.sending = "yes";
    else delete document.body.dataset.sending;
    pressed?.toggleAttribute("data-busy", on);
    pressed?.setAttribute("aria-busy", String(on));
  }

  function letGo() {
    clearTimeout(timer);
    body = null;
    delete document.body.dataset.unsure;
  }

  // The connection failed, before or after the request was sent. Try again later.
  function wait(name) {
    busy(false);
    if (changed) return supersede();
    if (name === "unsure") document.body.dataset.unsure = "yes";
    const again = say(name)?.querySelector("[data-resend]");
    if (again) again.onclick = attempt;
    clearTimeout(timer);
    if (navigator.onLine) timer = setTimeout(attempt, PAUSES_MS[Math.min(tries, PAUSES_MS.length) - 1]);
  }

  // The form changed since it was sent. It is sent again only when a button is pressed.
  function supersede() {
    letGo();
    say("changed");
  }

  async function attempt() {
    clearTimeout(timer);
    if (!body || isClosed() || document.body.dataset.sending) return;
    if (!navigator.onLine) return wait(tries ? "unsure" : "unsent");
    busy(true);
    tries += 1;
    say("sending");
    try {
      const reply = await fetch(address, {
        method: "POST",
        body,
        redirect: "manual",
        credentials: "same-origin",
        signal: AbortSignal.timeout?.(PATIENCE_MS),
      });
      await settle(reply);
    } catch {
      wait("unsure");
    }
  }

  async function settle(reply) {
    if (reply.type === "opaqueredirect") {
      forget(form);
      location.assign(address.replace(/\/[^/]*$/, ""));
      return;
    }
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const next = page.querySelector("[data-continue]"); // the answer needs a proof, on a page of its own
    if (next) return location.assign(next.href);
    // A page of a proxy or a captive portal says nothing about the answer.
    if (!page.querySelector(".outcome, form.answer")) return wait("unsure");
    letGo();
    busy(false);
    hush();
    if (reply.status === 200 || reply.status === 400) show(page);
    else refuse(page, reply.status);
  }

  // Show the returned page: the next step, or the form with its problems.
  function show(page) {
    forget(form);
    page.body.removeAttribute("data-opened-url");
    document.title = page.title;
    // The language may have been changed in another tab.
    for (const { name, value } of page.documentElement.attributes) document.documentElement.setAttribute(name, value);
    document.body.replaceWith(document.adoptNode(page.body));
    const since = put(document.querySelector("form.answer"), [...look(form)].filter(([place, value]) => before.get(place) !== value));
    enhance(document).then(since);
    const place = document.getElementById(address.split("#")[1] ?? "") ?? document.querySelector("main");
    place.scrollIntoView();
    (document.querySelector("[autofocus]") ?? focusable(place)).focus();
  }

  function focusable(place) {
    place.tabIndex = -1;
    return place;
  }

  function refuse(page, status) {
    const said = page.querySelector(".outcome");
    const fill = (place) => {
      place.replaceChildren(...(said ? said.children : []));
      place.querySelector("h1")?.replaceWith(heading(place.querySelector("h1")));
    };
    if (FINAL.includes(status)) close("refused", fill);
    else say("refused", fill);
  }

  function heading(title) {
    const smaller = document.createElement("h2");
    smaller.textContent = title.textContent;
    return smaller;
  }

  form.addEventListener("submit", (event) => {
    if (event.submitter?.matches("[data-leaves]")) return;
    event.preventDefault();
    if (document.body.dataset.sending || isClosed()) return;
    pressed = event.submitter;
    // `form.action` is not used: a button named "action" hides it.
    address = pressed?.getAttribute("formaction") ?? form.getAttribute("action");
    drop();
    drop = letGo;
    body = compose(pressed);
    before = look(form);
    changed = false;
    attempt();
  });
  // Some fields of the form are outside of it in the page.
  document.addEventListener("input", (event) => {
    if (event.target.form !== form) return;
    changed = true;
    if (body && !document.body.dataset.sending) supersede();
  });
  window.addEventListener("online", attempt);
}
