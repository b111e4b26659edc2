// Says when the word that confirms is typed right. Pasting it is fine.
export default function compare(input) {
  const said = document.createElement("p");
  said.className = "match";
  said.setAttribute("role", "status");
  input.after(said);

  function tell() {
    said.textContent = input.value.trim() === input.dataset.word ? input.dataset.matches : "";
  }

  input.addEventListener("input", tell);
  tell();
}
