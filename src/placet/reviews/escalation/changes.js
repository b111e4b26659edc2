// Marks a value that differs from its original.
export default function mark(control) {
  const note = control.closest(".field").querySelector(".was");
  const tell = () => (note.hidden = control.value === control.dataset.was);
  control.addEventListener("input", tell);
  tell();
}
