// Keeps what is typed in this tab until it is sent, so that a bad network or a reload loses nothing.
import { say } from "./live.js";

const SECRET = '[type="password"], [type="hidden"], [type="file"], .masked, [data-sensitive]';
const id = (form) => `assent ${location.pathname} ${form.elements.shown?.value} ${form.elements.step?.value ?? ""}`;

const fields = (form) =>
  [...form.elements].filter((each) => each.name && !each.matches(SECRET) && /^(INPUT|TEXTAREA|SELECT)$/.test(each.tagName));

const isChoice = (field) => field.type === "checkbox" || field.type === "radio";
const place = (field) => (isChoice(field) ? `${field.name}=${field.value}` : field.name);
const typed = (field) => (isChoice(field) ? field.checked : field.value);
const sent = (field) =>
  isChoice(field)
    ? field.defaultChecked
    : field.options
      ? ([...field.options].find((one) => one.defaultSelected) ?? field.options[0])?.value
      : field.defaultValue;

export function forget(form) {
  try {
    sessionStorage.removeItem(id(form));
  } catch {
    // No storage, nothing kept.
  }
}

function restore(form) {
  const kept = JSON.parse(sessionStorage.getItem(id(form)) ?? "null");
  if (!kept) return;
  let any = false;
  for (const field of fields(form)) {
    const value = kept[place(field)];
    if (value === undefined || typed(field) !== sent(field) || value === typed(field)) continue;
    if (isChoice(field)) field.checked = value;
    else field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.closest("details")?.setAttribute("open", "");
    any = true;
  }
  if (any) say("kept");
}

export default function keep(form) {
  const store = () => {
    const changed = fields(form).filter((field) => typed(field) !== sent(field));
    const kept = Object.fromEntries(changed.map((field) => [place(field), typed(field)]));
    try {
      if (changed.length) sessionStorage.setItem(id(form), JSON.stringify(kept));
      else forget(form);
    } catch {
      // Full or forbidden: the server's own page still keeps what was sent.
    }
  };
  try {
    restore(form);
  } catch {
    forget(form);
  }
  form.addEventListener("kept", () => forget(form)); // the server has it now
  form.addEventListener("input", store);
  form.addEventListener("change", store);
}
