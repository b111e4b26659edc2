"""Options and items as cards: a title to pick, badges, a picture and facts; quick for many of them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from assent.pages.content.looks import label, look
from assent.pages.visible import visible

Show = Callable[[Any], str]
Card = Mapping[str, Any]

BADGES = frozenset({"badges", "tags", "badge"})
LEADS = frozenset({"description", "summary", "subtitle"})
WIDE = frozenset({"facts", "table", "entries", "lines"})
MANY = 12
MOST_COLUMNS = 8
LONGEST_BADGE = 40
LONGEST_PRICE = 40

_PRICE = re.compile(r"(price|cost|fee|total|amount|salary)([_ -].*|)", re.IGNORECASE)


def draw_cards(
    cards: Iterable[Card],
    *,
    name: str,
    type: str,
    show: Show,
    picture: Show | None = None,
    advice: str = "",
    missing: str | None = None,
) -> Markup:
    """The cards as HTML; `advice` stands on those that the service recommends, `missing` on the unpicked.

    `show` draws any value; `picture` draws an address that may be shown, and nothing for any other.
    """
    pencil = _Pencil(f'type="{escape(type)}" name="{escape(name)}"', show, picture, advice, missing)
    drawn = "".join([pencil.card(number, card) for number, card in enumerate(cards, 1)])
    return Markup(drawn)  # noqa: S704 - every value in it was escaped as it was drawn


def columns_to_sort(cards: Sequence[Card]) -> list[str]:
    """The labels of the facts that most cards have, in their order: those by which to sort makes sense."""
    counts: dict[str, int] = {}
    for card in cards[:50]:
        for key, value in card["details"].items():
            if isinstance(value, str | int | float) and role_of(key) not in ("badges", "lead", "picture"):
                counts[key] = counts.get(key, 0) + 1
    half = min(len(cards), 50) / 2
    return [visible(label(key)) for key, count in counts.items() if count >= half][:MOST_COLUMNS]


@lru_cache(maxsize=1024)
def role_of(key: str) -> str:
    """Where a detail stands on a card, by its name."""
    if key in BADGES:
        return "badges"
    if key in LEADS:
        return "lead"
    if key in ("image", "image_url", "thumbnail"):
        return "picture"
    if key == "recommended":
        return "advice"
    return "price" if _PRICE.fullmatch(key) else "fact"


class _Pencil:
    """Draws one set of cards, and remembers what it has drawn before."""

    def __init__(
        self, control: str, show: Show, picture: Show | None, advice: str, missing: str | None
    ) -> None:
        self._input = f'<div class="card"><input {control} value="'
        self._show, self._picture, self._advice = show, picture, escape(advice)
        self._missing = f'<p class="problem">{escape(missing)}</p>' if missing else ""
        self._labels: dict[str, str] = {}
        self._cells: dict[tuple[Any, Any], str] = {}

    def card(self, number: int, card: Card) -> str:
        """One card: its picture stands before the facts, wherever it was sent."""
        checked = '" checked id="o-' if card["picked"] else '" id="o-'
        more = self._more(card["details"]) if card["details"] else ""
        missing = "" if card["picked"] else self._missing
        return (
            f'{self._input}{escape(card["id"])}{checked}{number}"><label for="o-{number}"><bdi>'
            f"{escape(visible(card['title']))}</bdi></label>{missing}{more}</div>\n"
        )

    def _more(self, details: Mapping[str, Any]) -> str:
        above: list[str] = []
        rows: list[str] = []
        prices: list[str] = []
        for key, value in details.items():
            role = role_of(key)
            drawn = "" if role == "fact" else self._special(role, value)
            if drawn:
                above.append(drawn)
            elif role == "price" and not prices and _is_price(value):
                prices.append(self._row(key, value, ' class="price"'))
            elif role != "advice":
                rows.append(self._row(key, value))
        facts = f'<dl class="facts">{"".join(prices)}{"".join(rows)}</dl>' if rows or prices else ""
        return f'<div class="more">{"".join(above)}{facts}</div>' if above or facts else ""

    def _special(self, role: str, value: Any) -> str:
        """A detail in a place of its own, or nothing where it does not fit there."""
        if role == "badges":
            return _badges(value)
        if role == "advice":
            return self._recommendation(value)
        if role == "lead" and isinstance(value, str) and value.strip():
            return f'<p class="lead lines" dir="auto">{escape(visible(value))}</p>'
        return self._picture(value) if role == "picture" and self._picture else ""

    def _recommendation(self, value: Any) -> str:
        if value is True:
            return f'<p class="advice">{self._advice}</p>'
        said = value if isinstance(value, str) and value.strip() else None
        return (
            f'<p class="advice">{self._advice}</p><p class="lead">{escape(visible(said))}</p>' if said else ""
        )

    def _row(self, key: str, value: Any, given: str = "") -> str:
        name = self._labels.get(key)
        if name is None:
            name = self._labels[key] = f"><dt><bdi>{escape(visible(label(key)))}</bdi></dt><dd>"
        kind = look(value)
        if kind == "text" and isinstance(value, str):
            return f"<div{given}{name}<bdi>{escape(visible(value))}</bdi></dd></div>"
        wide = ' class="wide"' if kind in WIDE else given
        return f"<div{wide}{name}{self._cell(value)}</dd></div>"

    def _cell(self, value: Any) -> str:
        if not isinstance(value, str | int | float):
            return str(self._show(value))
        known = (type(value), value)
        drawn = self._cells.get(known)
        if drawn is None:
            drawn = self._cells[known] = self._drawn(value)
        return drawn

    def _drawn(self, value: Any) -> str:
        shown = str(self._show(value)).strip()
        if isinstance(value, bool | str):
            return shown
        return f'<data value="{value}">{shown}</data>'  # sorting needs the number, not how it is written here


def _badges(value: Any) -> str:
    words = value if isinstance(value, list | tuple) else [value]
    if not words or not all(_is_badge(word) for word in words):
        return ""
    return '<ul class="badges">' + "".join(f"<li>{escape(visible(word))}</li>" for word in words) + "</ul>"


def _is_badge(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= LONGEST_BADGE and "\n" not in value


def _is_price(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value.strip()) <= LONGEST_PRICE and "\n" not in value
    return isinstance(value, int | float) and not isinstance(value, bool)
