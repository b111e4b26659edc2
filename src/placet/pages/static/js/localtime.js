// Shows times in the person's time zone and format; the exact time in UTC is in the tooltip.
export const region = () => {
  const language = document.documentElement.lang || "en";
  const spoken = navigator.languages?.find((each) => each.split("-")[0] === language);
  return `${spoken ?? (language === "en" ? "en-GB" : language)}-u-nu-latn`; // the digits of the rest of the page
};

const MINUTE_MS = 60_000;
const CLOCK = { hour: "numeric", minute: "2-digit", timeZoneName: "short" };
const DATE = { weekday: "short", day: "numeric", month: "short" };
const day = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());

function write(element, moment) {
  const now = new Date();
  const days = Math.round((day(moment) - day(now)) / 86_400_000);
  const year = moment.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  const say = (parts) => new Intl.DateTimeFormat(region(), parts).format(moment);
  const near = new Intl.RelativeTimeFormat(region(), { numeric: "auto" });
  const text = Math.abs(days) > 1 ? say({ ...DATE, ...year, ...CLOCK }) : `${near.format(days, "day")} ${say(CLOCK)}`;
  if (element.textContent !== text) element.textContent = text;
}

export default function localise(element) {
  const moment = new Date(element.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  write(element, moment);
  // A page may stay open over midnight, when tomorrow becomes today.
  const timer = setInterval(() => (element.isConnected ? write(element, moment) : clearInterval(timer)), MINUTE_MS);
}
