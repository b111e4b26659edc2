// Announces when the confirmation word is typed correctly. It may be pasted.
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
