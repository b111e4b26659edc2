// Creates or uses a passkey, and posts what the device returned with the form.
const fromText = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
const toText = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");

export default function usePasskey(form) {
  const button = form.querySelector("button");
  const said = form.querySelector("[data-said]");
  let done = false;

  function say(name) {
    said.textContent = said.dataset[name];
    said.hidden = false;
  }

  function readOptions() {
    const options = JSON.parse(form.dataset.options);
    options.challenge = fromText(options.challenge);
    if (options.user) options.user.id = fromText(options.user.id);
    for (const list of ["allowCredentials", "excludeCredentials"]) {
      for (const each of options[list] ?? []) each.id = fromText(each.id);
    }
    return { publicKey: options };
  }

  function write(credential) {
    const { id, type, rawId, response } = credential;
    const names = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
    const present = names.filter((name) => response[name]);
    return JSON.stringify({
      id,
      type,
      rawId: toText(rawId),
      response: Object.fromEntries(present.map((name) => [name, toText(response[name])])),
      clientExtensionResults: {},
    });
  }

  async function ask() {
    button.setAttribute("data-busy", "");
    said.hidden = true;
    try {
      const credential = await navigator.credentials[form.dataset.passkey](readOptions());
      form.elements.credential.value = write(credential);
      done = true;
      form.requestSubmit();
    } catch (error) {
      // The device tells too little to know whether the person cancelled.
      const name = { NotAllowedError: "cancelled", InvalidStateError: "known", AbortError: "cancelled" }[error.name];
      say(name ?? "failed");
    } finally {
      button.removeAttribute("data-busy");
    }
  }

  form.querySelector("[data-unscripted]").hidden = true;
  if (!window.PublicKeyCredential) return say("unsupported");
  button.disabled = false;
  form.addEventListener("submit", (event) => {
    if (done) return;
    event.preventDefault();
    if (!button.hasAttribute("data-busy")) ask();
  });
  // A page that comes back from the browser's cache must not send the same proof again.
  window.addEventListener("pageshow", (event) => event.persisted && window.location.reload());
}
