// Turns suggested reasons into buttons that fill the box, so that a person can change the text before sending.
export default function fillBox(group) {
  const box = group.form.elements[group.dataset.fills];
  if (!box) return;
  const told = document.createElement("p");
  told.className = "hint";
  told.setAttribute("role", "status");
  const choices = [...group.querySelectorAll("[data-text]")];
  const texts = choices.map((choice) => choice.dataset.text);

  function fill(text) {
    const typed = box.value.trim();
    if (!typed || texts.includes(typed)) box.value = text;
    else if (!box.value.includes(text)) box.value = `${text}\n\n${box.value}`;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    told.textContent = group.dataset.told;
  }

  const buttons = choices.map((choice) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = choice.className; // our suggestions have our font, those of the service have its own
    button.append(choice.querySelector("bdi"));
    button.addEventListener("click", () => fill(choice.dataset.text));
    return button;
  });
  group.replaceChildren(group.querySelector("legend"), ...buttons, told);
}
