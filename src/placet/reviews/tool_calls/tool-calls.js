// Shows the changes to each call while a person types, and how many calls are decided.
import { follow } from "./edit.js";
import "./diff.js"; // also imported here, so that the browser loads it at once

export default function decide(box) {
  const calls = [...box.querySelectorAll(".call")];
  const told = document.createElement("p");
  told.className = "decided";
  told.setAttribute("role", "status");
  if (calls.length > 1) box.append(told);

  function tell() {
    const count = calls.filter((call) => call.querySelector(".verdicts :checked")).length;
    told.textContent = box.dataset.tally.replace("{count}", count.toLocaleString(document.documentElement.dataset.locale));
  }

  // Boxes without changes have no element for them yet.
  const blank = box.querySelector("template").content.firstElementChild;
  for (const control of box.querySelectorAll(".edits :is(textarea, select, [type=text])")) {
    const field = control.closest(".field");
    const place = field.querySelector("[data-edits]") ?? field.appendChild(blank.cloneNode(true));
    place.dataset.edits = control.id;
    follow(place, box.dataset, () => {});
  }
  box.querySelectorAll(".pair:has([value=x-preview])").forEach((pair) => (pair.hidden = true));
  box.addEventListener("change", ({ target }) => target.closest(".verdicts") && tell());
  addEventListener("pageshow", tell);
  tell();
}
