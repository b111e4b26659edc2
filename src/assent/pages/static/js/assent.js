// Tells the server once that a person has this page before them. Everything else works without scripts.
const { openedUrl } = document.body.dataset;
const csrf = document.querySelector('input[name="csrf"]');

function tell() {
  if (document.visibilityState !== "visible") return;
  document.removeEventListener("visibilitychange", tell);
  fetch(openedUrl, {
    method: "POST",
    credentials: "same-origin",
    body: new URLSearchParams({ csrf: csrf.value }),
  }).catch(() => {});
}

if (openedUrl && csrf) {
  document.addEventListener("visibilitychange", tell);
  tell();
}
