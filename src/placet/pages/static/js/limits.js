// Announces how many options are ticked, and refuses one more than the maximum at the option itself.
export default function keepCount(group) {
  const { tally, most, excess } = group.dataset;
  const count = document.createElement("p");
  const refusal = document.createElement("p");
  count.className = "tally";
  count.setAttribute("role", "status");
  refusal.className = "problem";
  refusal.setAttribute("role", "alert");
  group.querySelector(".cards").before(count);

  const ticked = () => group.querySelectorAll(".card :checked").length;

  function tell() {
    count.textContent = tally.replace("{count}", ticked().toLocaleString(document.documentElement.dataset.locale));
  }

  group.addEventListener("change", ({ target }) => {
    if (!target.closest(".card")) return;
    refusal.remove();
    refusal.textContent = "";
    target.parentNode.querySelector(".problem")?.remove();
    if (most && target.checked && ticked() > Number(most)) {
      target.checked = false;
      target.closest(".card").append(refusal);
      refusal.textContent = excess;
    }
    tell();
  });
  window.addEventListener("pageshow", tell);
  tell();
}
