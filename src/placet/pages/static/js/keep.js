// Stores what is typed in this tab until it is sent, so that a network failure or a reload loses nothing.
import { say } from "./live.js";

const OURS = '[type="hidden"], [type="file"]';
const SECRET = '[type="password"], .masked, [data-sensitive], [data-sensitive] *';
const id = (form) => `placet ${location.pathname} ${form.elements.shown?.value} ${form.elements.step?.value ?? ""}`;

const filledIn = (form) =>
  [...form.elements].filter((each) => each.name && !each.matches(OURS) && /^(INPUT|TEXTAREA|SELECT)$/.test(each.tagName));
const fields = (form) => filledIn(form).filter((each) => !each.matches(SECRET));

const isChoice = (field) => field.type === "checkbox" || field.type === "radio";
const place = (field) => (isChoice(field) ? `${field.name}=${field.value}` : field.name);
const typed = (field) => (isChoice(field) ? field.checked : field.value);
const sent = (field) =>
  isChoice(field)
    ? field.defaultChecked
    : field.options
      ? ([...field.options].find((one) => one.defaultSelected) ?? field.options[0])?.value
      : field.defaultValue;

function set(field, value) {
  if (isChoice(field)) field.checked = value;
  else field.value = value;
}

function tell(field) {
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

// Return the current values of a form.
export const look = (form) => new Map(filledIn(form).map((field) => [place(field), typed(field)]));

// Write values into another copy of the form; return a function that notifies the other scripts.
export function put(form, entries) {
  const values = new Map(entries);
  const changed = filledIn(form).filter((field) => values.has(place(field)) && values.get(place(field)) !== typed(field));
  changed.forEach((field) => set(field, values.get(place(field))));
  return () => changed.forEach(tell);
}

export function forget(form) {
  try {
    sessionStorage.removeItem(id(form));
  } catch {
    // Without storage, nothing was stored.
  }
}

function restore(form) {
  const kept = JSON.parse(sessionStorage.getItem(id(form)) ?? "null");
  if (!kept) return;
  let any = false;
  for (const field of fields(form)) {
    const value = kept[place(field)];
    if (value === undefined || typed(field) !== sent(field) || value === typed(field)) continue;
    set(field, value);
    tell(field);
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
      // Storage is full or forbidden. The page that the server returns still has the values that were sent.
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
