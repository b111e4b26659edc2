// Reports to the server, once, that a person sees this page.
export default function tellWhenSeen(body) {
  const csrf = document.querySelector('input[name="csrf"]');

  function tell() {
    if (document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", tell);
    fetch(body.dataset.openedUrl, {
      method: "POST",
      credentials: "same-origin",
      body: new URLSearchParams({ csrf: csrf.value }),
    }).catch(() => {});
  }

  if (!csrf) return;
  document.addEventListener("visibilitychange", tell);
  tell();
}
