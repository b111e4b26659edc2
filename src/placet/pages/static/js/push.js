// Turns notifications in this browser on and off. Browsers ask for permission only after a click.
const asBytes = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));

export default async function offer(form) {
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) return;
  const { push, pushUrl, workerUrl } = form.dataset;
  const [button, told] = [form.querySelector("button"), form.querySelector("[role=status]")];
  const worker = await navigator.serviceWorker.getRegistration(workerUrl);
  let current = await worker?.pushManager.getSubscription();

  async function report(subscription, more = {}) {
    const { endpoint, keys } = subscription.toJSON();
    const fields = { csrf: form.elements.csrf.value, endpoint, ...keys, ...more };
    const reply = await fetch(pushUrl, {
      method: "POST",
      body: new URLSearchParams(fields),
      credentials: "same-origin",
    });
    if (!reply.ok) throw new Error(reply.status);
  }

  async function turnOn() {
    await navigator.serviceWorker.register(workerUrl);
    const { pushManager } = await navigator.serviceWorker.getRegistration(workerUrl);
    const options = { userVisibleOnly: true, applicationServerKey: asBytes(push) };
    const subscription = await pushManager.subscribe(options);
    try {
      await report(subscription);
    } catch (error) {
      await subscription.unsubscribe();
      throw error;
    }
    current = subscription;
  }

  async function turnOff() {
    await report(current, { off: "1" });
    await current.unsubscribe();
    current = null;
  }

  function show() {
    button.textContent = current ? button.dataset.off : button.dataset.on;
    form.hidden = false;
  }

  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await (current ? turnOff() : turnOn());
    } catch {
      told.textContent = told.dataset.failed;
    }
    button.disabled = false;
    show();
  });

  // Subscriptions end without a word, and another person may have signed in: say again that this one is here.
  if (current) await report(current).catch(() => {});
  show();
}
