// Copies the link for a colleague, or opens the device's share dialog with it.
export default function offer(group) {
  const box = document.getElementById(group.dataset.handover);
  const [copy, share, said] = ["[data-copy]", "[data-share]", "[role=status]"].map((each) => group.querySelector(each));
  const link = () => box.value.trim();
  const copied = () => (said.textContent = said.dataset.copied);

  function copySelected() {
    box.select();
    if (document.execCommand?.("copy")) copied();
    else said.textContent = said.dataset.uncopied;
  }

  copy.addEventListener("click", () => {
    if (navigator.clipboard) navigator.clipboard.writeText(link()).then(copied, copySelected);
    else copySelected();
  });
  if (navigator.share) {
    share.hidden = false;
    share.addEventListener("click", () => navigator.share({ url: link() }).catch(() => {}));
  }
  group.hidden = false;
}
