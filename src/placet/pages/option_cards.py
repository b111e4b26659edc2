"""Render options and items as cards: a title to select, badges, a picture and facts; fast for many cards."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from placet.pages.content import ValueRenderer
from placet.pages.content.display_forms import format_label
from placet.pages.content.images import render_picture
from placet.text.characters import mark_hidden

CardData = Mapping[str, Any]

# The position of a detail on a card, by its name; all other details are facts.
ROLES: Mapping[str, str] = {
    **dict.fromkeys(("image", "image_url", "thumbnail"), "picture"),
    "recommended": "advice",
    **dict.fromkeys(("badges", "tags", "badge"), "badges"),
    **dict.fromkeys(("description", "summary", "subtitle"), "lead"),
}
ABOVE = ("picture", "advice", "badges", "lead")
MAX_COLUMNS = 8
MAX_EXAMINED = 50
MAX_BADGE_LENGTH = 40
MAX_PRICE_LENGTH = 40
# Longer values would not fit beside others.
LONG_VALUE = 20
LONG_PRICE = 14
BATCH_SIZE = 16

_BADGES = '<ul class="badges">'
_PRICE = re.compile(r"(price|cost|fee|total|amount|salary)([_ -].*|)", re.IGNORECASE)


def draw_cards(
    cards: Sequence[CardData],
    *,
    name: str,
    type: str,
    content: ValueRenderer,
    advice: str = "",
    missing: str | None = None,
) -> Iterator[Markup]:
    """Yield the cards as HTML, a few at a time.

    `advice` is shown on cards that the service recommends, `missing` on cards that are not selected.
    """
    writer = _CardWriter(
        f'type="{escape(type)}" name="{escape(name)}"', content, advice, missing, _list_long_keys(cards)
    )
    for first in range(0, len(cards), BATCH_SIZE):
        few = enumerate(cards[first : first + BATCH_SIZE], first + 1)
        drawn = "".join([writer.render_card(number, card) for number, card in few])
        yield Markup(drawn)  # noqa: S704 - every value was escaped when it was rendered


def columns_to_sort(cards: Sequence[CardData]) -> list[str]:
    """Return the labels of the facts that most cards have, in order: the useful sort keys."""
    examined = cards[:MAX_EXAMINED]
    counts: dict[str, int] = {}
    for card in examined:
        for key, value in card["details"].items():
            if isinstance(value, str | int | float) and get_detail_role(key) in ("fact", "price"):
                counts[key] = counts.get(key, 0) + 1
    common = [key for key, count in counts.items() if count * 2 >= len(examined)]
    return [mark_hidden(format_label(key)) for key in common[:MAX_COLUMNS]]


@lru_cache(maxsize=1024)
def get_detail_role(key: str) -> str:
    """Return the role of a detail on a card, by its name."""
    return ROLES.get(key) or ("price" if _PRICE.fullmatch(key) else "fact")


class _CardWriter:
    """Renders one set of cards."""

    def __init__(
        self, control: str, content: ValueRenderer, advice: str, missing: str | None, long: frozenset[str]
    ) -> None:
        self._input = f'<div class="card"><input {control} value="'
        self._content, self._advice = content, f'<p class="advice">{escape(advice)}</p>'
        self._long = long
        self._missing = f'<p class="problem">{escape(missing)}</p>' if missing else ""

    def render_card(self, number: int, card: CardData) -> str:
        """Return one card as HTML."""
        checked = '" checked id="o-' if card["picked"] else '" id="o-'
        missing = "" if card["picked"] else self._missing
        more = self._render_more(card["details"]) if card["details"] else ""
        return (
            f'{self._input}{escape(card["id"])}{checked}{number}"><label for="o-{number}"><bdi>'
            f"{escape(mark_hidden(card['title']))}</bdi></label>{missing}{more}</div>\n"
        )

    def _render_more(self, details: Mapping[str, Any]) -> str:
        """Return the parts above the facts, then the price, then the other facts in the order sent."""
        above: dict[str, str] = {}
        price, rows = "", []
        for key, value in details.items():
            role = get_detail_role(key)
            drawn = self._render_special(role, value) if role in ABOVE else ""
            if drawn:
                above[role] = _join_badges(above.get(role, ""), drawn)
            elif role == "price" and not price and _is_price(value):
                price = self._render_row(key, value, LONG_PRICE, "price")
            elif value or role not in ABOVE:
                rows.append(self._render_row(key, value, LONG_VALUE))
        facts = f'<dl class="facts">{price}{"".join(rows)}</dl>' if rows or price else ""
        parts = "".join([*(above[role] for role in ABOVE if role in above), facts])
        return f'<div class="more">{parts}</div>' if parts else ""

    def _render_special(self, role: str, value: Any) -> str:
        """Return a detail that is not shown as a fact, or "" if its value does not fit its role."""
        if role == "picture":
            return render_picture(value, "") or ""  # the title describes it
        if role == "badges":
            return _render_badges(value)
        if role == "advice" and value is True:
            return self._advice
        text = value if isinstance(value, str) and value.strip() else None
        if text is None:
            return ""
        above = self._advice if role == "advice" else ""
        warnings = self._content.link_warnings(text) if "://" in text else ""
        return f'{above}<p class="lead lines" dir="auto">{escape(mark_hidden(text))}</p>{warnings}'

    def _render_row(self, key: str, value: Any, longest: int, css: str = "") -> str:
        name, shown, wide = self._content.fact(key, value)
        if wide:
            css = "wide"
        elif isinstance(value, str):
            css = f"{css} long".strip() if len(value) > longest or key in self._long else css
        elif isinstance(value, int | float) and not isinstance(value, bool):
            shown = f'<data value="{value}">{shown}</data>'  # the script sorts by this number
        elif value is not True and value:
            css = "long"
        start = f'<div class="{css}">' if css else "<div>"
        return f"{start}<dt><bdi>{name}</bdi></dt><dd>{shown}</dd></div>"


def _list_long_keys(cards: Sequence[CardData]) -> frozenset[str]:
    """Return the facts that need a full line on one card; they get one on all, to be comparable."""
    return frozenset(
        key
        for card in cards[:MAX_EXAMINED]
        for key, value in card["details"].items()
        if isinstance(value, str)
        and len(value) > (LONG_PRICE if get_detail_role(key) == "price" else LONG_VALUE)
    )


def _render_badges(value: Any) -> str:
    words = value if isinstance(value, list | tuple) else [value]
    if not words or not all(_is_badge(word) for word in words):
        return ""
    return _BADGES + "".join(f"<li>{escape(mark_hidden(word))}</li>" for word in words) + "</ul>"


def _join_badges(before: str, drawn: str) -> str:
    """Join badges of several details into one list."""
    together = before.endswith("</ul>") and drawn.startswith(_BADGES)
    return before.removesuffix("</ul>") + drawn.removeprefix(_BADGES) if together else before + drawn


def _is_badge(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= MAX_BADGE_LENGTH and "\n" not in value


def _is_price(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value.strip()) <= MAX_PRICE_LENGTH and "\n" not in value
    return isinstance(value, int | float) and not isinstance(value, bool)
