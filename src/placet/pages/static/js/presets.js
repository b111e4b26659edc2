// Suggested reasons become buttons that fill the box, where a person sees and can change what will be sent.
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
    button.className = choice.className; // what we suggest is in our face
    button.append(choice.querySelector("bdi"));
    button.addEventListener("click", () => fill(choice.dataset.text));
    return button;
  });
  group.replaceChildren(group.querySelector("legend"), ...buttons, told);
}
