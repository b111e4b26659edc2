// Filters and sorts many cards. Chosen cards stay visible; what the form sends does not change.
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

export default function offerSearch(template) {
  const cards = template.parentNode.querySelector(".cards");
  const sent = [...cards.children];
  const texts = new Map();
  template.before(template.content.cloneNode(true));
  const finder = template.previousElementSibling;
  const [box, order, found] = ["input", "select", ".found"].map((each) => finder.querySelector(each));
  template.parentNode.querySelector(".index")?.remove();

  function text(card) {
    if (!texts.has(card)) texts.set(card, fold(card.textContent));
    return texts.get(card);
  }

  function find() {
    const words = fold(box.value).split(/\s+/).filter(Boolean);
    let count = 0;
    let matches = 0;
    for (const card of sent) {
      const fits = words.every((word) => text(card).includes(word));
      card.hidden = !fits && !card.querySelector(":checked");
      count += !card.hidden;
      matches += fits;
    }
    const shown = template.dataset.shown.replace("{count}", count.toLocaleString(document.documentElement.dataset.locale));
    found.textContent = words.length ? (matches ? shown : `${template.dataset.none} ${shown}`) : "";
  }

  function sort() {
    const { value, dataset } = order.selectedOptions[0];
    const way = "up" in dataset ? 1 : "down" in dataset ? -1 : 0;
    cards.append(...(way ? sorted(sent, value, way) : sent));
  }

  let pending;
  box.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(find, 80);
  });
  box.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  order.addEventListener("change", sort);
}

function sorted(cards, column, way) {
  const keyed = cards.map((card) => ({ card, key: key(card, column) }));
  const numbers = keyed.map(({ key }) => (key === null ? null : amount(key)));
  const numeric = column && numbers.every((number) => number === null || !Number.isNaN(number));
  if (numeric) keyed.forEach((entry, place) => (entry.key = numbers[place]));
  const { compare } = new Intl.Collator(document.documentElement.dataset.locale, { numeric: true });
  keyed.sort((one, other) => {
    if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
    return way * (numeric ? one.key - other.key : compare(one.key, other.key));
  });
  return keyed.map(({ card }) => card);
}

// Return the sort key of a card: its title, or the exact value of the fact with this label.
function key(card, column) {
  if (!column) return card.querySelector("label").textContent;
  const label = [...card.querySelectorAll(".facts > div > dt")].find((dt) => dt.textContent === column);
  if (!label) return null;
  const exact = label.nextElementSibling.querySelector("data, time");
  return exact ? exact.value || exact.dateTime : label.nextElementSibling.textContent.trim();
}

// Return the first number of a text such as "1,200.50 EUR", or a time as a number; NaN if there is none.
function amount(text) {
  if (/^\d{4}-\d\d-\d\d/.test(text)) return Date.parse(text);
  const [written] = text.match(/^\D{0,4}?(-?\d[\d.,'’\s]*)/)?.slice(1) ?? [];
  if (!written) return NaN;
  const plain = written.replace(/['’\s]/g, "");
  const mark = plain.match(/[.,](?=\d*$)/)?.[0];
  const grouped = mark && new RegExp(`^-?[1-9]\\d{0,2}(\\${mark}\\d{3})+$`).test(plain);
  if (!mark || grouped) return Number(plain.replace(/[.,]/g, ""));
  return Number(plain.split(mark).map((part) => part.replace(/[.,]/g, "")).join("."));
}
