// Shows changes while a person types, and announces how much changed when they pause.
import { compare } from "./diff.js";

const TAGS = { added: "ins", removed: "del", gap: "span" };

// The characters that the server marks as hidden, except joiners and emoji styles, which depend on their neighbours.
const HIDDEN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]/gu;
const visible = (text) =>
  text.replace(HIDDEN, (sign) => `⟦U+${sign.codePointAt().toString(16).toUpperCase().padStart(4, "0")}⟧`);

function drawn([sign, text], words) {
  if (sign === "same") return visible(text);
  const mark = document.createElement(TAGS[sign]);
  if (sign === "gap") mark.className = "gap";
  else {
    const spoken = document.createElement("span");
    spoken.className = "offscreen";
    spoken.textContent = `${words[sign]} `;
    mark.append(spoken);
  }
  mark.append(sign === "gap" ? text : visible(text).replaceAll("\n", "↵\n"));
  return mark;
}

export function follow(place, words, changed) {
  const control = document.getElementById(place.dataset.edits);
  const told = place.querySelector(".told");
  const shown = place.querySelector(".diff");
  const chosen = [...(control.options ?? [])].find((option) => option.defaultSelected);
  const original = place.dataset.original ?? chosen?.value ?? control.defaultValue;
  const read = (value) => [...(control.options ?? [])].find((option) => option.value === value)?.text ?? value;
  let [drawing, pause, cost] = [0, 0, 0];

  function tell(found) {
    const text = words[found.pieces.length ? (found.words ? "words" : "signs") : "none"];
    told.textContent = text.replace("{count}", found.words.toLocaleString(document.documentElement.dataset.locale));
  }

  function draw() {
    const start = performance.now();
    const same = control.value === original;
    const found = same ? { words: 0, pieces: [] } : compare(read(original), read(control.value));
    shown.replaceChildren(...found.pieces.map((piece) => drawn(piece, words)));
    place.hidden = same && !told.textContent;
    clearTimeout(pause);
    pause = setTimeout(() => tell(found), 400);
    cost = performance.now() - start;
  }

  // A browser may have restored earlier input before this script was loaded.
  if (chosen ? !chosen.selected : control.value !== control.defaultValue) draw();
  control.addEventListener("input", () => {
    changed();
    clearTimeout(drawing);
    // Long texts are compared when the person pauses, so that typing stays fast.
    drawing = setTimeout(draw, cost < 10 ? 0 : 300);
  });
  return {
    get edited() {
      return control.value !== original;
    },
    undo() {
      if (control.value === original) return;
      control.value = original;
      control.dispatchEvent(new Event("input", { bubbles: true }));
    },
  };
}

export default function editInPlace(box) {
  const notice = document.getElementById("edited");
  const changed = () => (notice.hidden = !followed.some((part) => part.edited));
  const followed = [...box.querySelectorAll("[data-edits]")].map((place) => follow(place, box.dataset, changed));
  changed();
  box.querySelector("[value=x-preview]").hidden = true;
  box.querySelector("[value=x-undo]").addEventListener("click", (event) => {
    event.preventDefault();
    followed.forEach((part) => part.undo());
  });
}
