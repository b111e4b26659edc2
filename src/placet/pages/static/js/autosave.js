// Saves the form's values on the server: after a pause, when a field is left, and when the page is closed.
// Dispatches "kept" on the form, with the reply and the fields that changed since. A "keep" event on the form
// saves soon.
const PAUSE = 1000;
const LEAVING = 300; // the next click may be a button that sends the whole form
const CHOICE = "[type=radio], [type=checkbox], select";
const RETRY = 2000;
const MAX_RETRY_MS = 30000;
const OUTLIVES_PAGE = 60000; // bytes that a browser sends at most after the page is closed
const FINAL = { 401: "ended", 403: "ended", 404: "closed", 409: "closed", 410: "closed", 400: "refused", 413: "refused" };

export default function autosave(line) {
  const form = line.closest("form");
  const { draftUrl, ...words } = line.dataset;
  const heard = form.querySelector(".heard");
  const dirty = new Set();
  const late = new Set(); // fields that changed while the form was being sent
  let timer, sending = 0, wait = RETRY, first = true, over = false, leaving = false;

  const bar = form.querySelector(".bar");
  const clock = new Intl.DateTimeFormat(document.documentElement.dataset.locale, { timeStyle: "short", hourCycle: "h23" });

  function say(name, aloud) {
    line.textContent = words[name].replace("{time}", clock.format(new Date()));
    const stuck = getComputedStyle(bar).position === "sticky";
    line.style.insetBlockEnd = `${stuck ? bar.offsetHeight : 0}px`;
    line.classList.toggle("unsaved", aloud);
    line.hidden = false;
    if (aloud) heard.textContent = line.textContent;
  }

  // A form that names its fields sends only changed fields, so that two devices do not overwrite each other.
  function body() {
    const all = [...new FormData(form)];
    const byField = all.some(([name]) => name === "asked");
    const touched = ([name, value]) =>
      name === "asked" ? dirty.has(`field.${value}`) : !name.startsWith("field.") || dirty.has(name);
    return new URLSearchParams(byField ? all.filter(touched) : all);
  }

  async function save(now, last) {
    clearTimeout(timer);
    if (over || leaving || !dirty.size || !line.isConnected || (sending && !now)) return;
    if (document.body.dataset.sending && !(last && late.size)) {
      // The form is being sent with these values. Save them only if that fails.
      timer = setTimeout(save, PAUSE);
      return;
    }
    const sent = body();
    const names = [...dirty];
    dirty.clear();
    sending += 1;
    let reply = null;
    try {
      reply = await fetch(draftUrl, {
        method: "POST",
        credentials: "same-origin",
        keepalive: String(sent).length < OUTLIVES_PAGE,
        body: sent,
      });
    } catch {
      // The network failed. The values are still in the form; try again below.
    }
    sending -= 1;
    if (reply?.ok) return kept(await reply.json());
    names.forEach((name) => dirty.add(name));
    if (leaving) return;
    if (reply && FINAL[reply.status]) {
      over = FINAL[reply.status] !== "refused";
      say(FINAL[reply.status], true);
    } else {
      if (!line.classList.contains("unsaved")) say("trying", true);
      timer = setTimeout(save, wait);
      wait = Math.min(wait * 2, MAX_RETRY_MS);
    }
  }

  function kept(answer) {
    wait = RETRY;
    const wasLost = line.classList.contains("unsaved");
    if (dirty.size) timer = setTimeout(save, PAUSE);
    else say(first ? "first" : "saved", false);
    first = false;
    if (wasLost) heard.textContent = line.textContent;
    form.dispatchEvent(new CustomEvent("kept", { detail: { ...answer, unsaved: [...dirty] } }));
  }

  function typed(event) {
    const { name } = event.target;
    if (!name || event.target.form !== form) return;
    dirty.add(name === "emptied" ? `field.${event.target.value}` : name);
    if (document.body.dataset.sending) late.add(name);
    clearTimeout(timer);
    timer = setTimeout(save, event.type === "input" ? PAUSE : event.target.matches(CHOICE) ? 0 : LEAVING);
  }

  form.addEventListener("input", typed);
  form.addEventListener("change", typed);
  form.addEventListener("keep", () => {
    clearTimeout(timer);
    timer = setTimeout(save, LEAVING);
  });
  form.addEventListener("submit", (event) => {
    if (!document.body.dataset.sending) late.clear();
    leaving = true; // the form post contains all values
    setTimeout(() => { leaving = !event.defaultPrevented; });
  });
  addEventListener("pageshow", () => { leaving = false; });
  addEventListener("pagehide", () => save(true, true));
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && save(true));
  addEventListener("online", () => save());
}
