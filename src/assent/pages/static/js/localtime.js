// Says moments in the person's own time zone, as their region writes them; the exact one in UTC stays at hand.
export const region = () => {
  const language = document.documentElement.lang || "en";
  const spoken = navigator.languages?.find((each) => each.split("-")[0] === language);
  return `${spoken ?? (language === "en" ? "en-GB" : language)}-u-nu-latn`; // the digits of the rest of the page
};

const CLOCK = { hour: "numeric", minute: "2-digit", timeZoneName: "short" };
const DATE = { weekday: "short", day: "numeric", month: "short" };
const day = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());

export default function localise(element) {
  const moment = new Date(element.dateTime);
  const now = new Date();
  if (Number.isNaN(moment.getTime())) return;
  const days = Math.round((day(moment) - day(now)) / 86_400_000);
  const year = moment.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  const write = (parts) => new Intl.DateTimeFormat(region(), parts).format(moment);
  const near = new Intl.RelativeTimeFormat(region(), { numeric: "auto" });
  element.textContent =
    Math.abs(days) > 1 ? write({ ...DATE, ...year, ...CLOCK }) : `${near.format(days, "day")} ${write(CLOCK)}`;
}
