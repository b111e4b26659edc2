// Shows notifications while no page of the inbox is open, and opens the review page when one is pressed.
self.addEventListener("push", (event) => {
  let message;
  try {
    message = event.data.json();
  } catch {
    return;
  }
  const { title, body, tag, url } = message;
  event.waitUntil(self.registration.showNotification(title, { body, tag, renotify: true, data: { url } }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const target = new URL(event.notification.data.url, self.location.origin);
  // The server writes only its own links; anything else came from somebody else.
  if (target.origin === self.location.origin) event.waitUntil(self.clients.openWindow(target.href));
});
