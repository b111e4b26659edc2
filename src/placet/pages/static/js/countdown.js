// Updates texts such as "in 2 hours". Screen readers announce only ten minutes and one minute before the end.
import { close, isClosed, isSending, say } from "./live.js";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const ALOUD = [MINUTE, 10 * MINUTE];
const words = () => new Intl.RelativeTimeFormat(document.documentElement.dataset.locale, { numeric: "always" });

// Return a distance in words, such as "in 2 hours": seconds only in the last minute, rounded to tens.
function formatDistance(seconds) {
  const far = Math.abs(seconds);
  const [size, unit] =
    far >= 1.5 * DAY ? [DAY, "day"] : far >= 1.5 * HOUR ? [HOUR, "hour"] : far >= MINUTE ? [MINUTE, "minute"] : [1, "second"];
  const count = unit === "second" && far > 10 ? Math.ceil(far / 10) * 10 : Math.round(far / size);
  return words().format(seconds < 0 ? -count : count, unit);
}

export default function count(element) {
  const end = Date.parse(element.dataset.away);
  const behind = Date.parse(element.dataset.now) - Date.now(); // the server's clock decides
  const deadline = element.closest("[data-deadline]");
  const left = () => (end - Date.now() - behind) / 1000;
  let last = left();
  const isPast = last <= 0;

  function warn(now) {
    const mark = ALOUD.find((each) => last > each && now <= each);
    if (mark) say("soon", (text) => (text.textContent = text.textContent.replace("{when}", formatDistance(mark))));
    if (now <= 0 && !isSending()) close("expired");
  }

  function tick() {
    if (!element.isConnected || (deadline && isClosed())) return;
    const now = left();
    const text = formatDistance(deadline ? Math.max(now, 0) : now);
    const isNew = isPast && !deadline && now > -MINUTE; // show "just now" for a minute
    if (!isNew && element.textContent !== text) element.textContent = text;
    if (deadline) warn(now);
    last = now;
    const pause = Math.abs(now) > 2 * MINUTE ? 10 : 1;
    if (!deadline || now > 0) setTimeout(tick, 1000 * (now > 0 ? Math.min(pause, now + 0.01) : pause));
  }

  if (Number.isFinite(end) && Number.isFinite(behind)) tick();
}
