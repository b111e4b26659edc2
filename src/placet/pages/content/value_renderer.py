"""Render any JSON value as markup; built without templates, since pages may hold thousands of values."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from placet.pages.content import display_forms, images, links
from placet.pages.content.content_types import (
    ContentType,
    find_content_type,
    find_hinted_types,
    type_from_name,
)
from placet.pages.content.json_text import format_as_json
from placet.pages.content.markup_writer import MarkupWriter, as_markup
from placet.pages.content.previews import Previews
from placet.pages.content.text_changes import find_versions, render_changes
from placet.pages.language import Language
from placet.text.characters import mark_hidden

# After this many parts, the rest of a value is shown as text.
MAX_PARTS = 1500
MAX_DEPTH = 40
FOLD_DEPTH = 3
FOLD_PARTS = 4
SHOWN_ROWS = 12
CACHE_SIZE = 4096
CAPTIONS = ("alt", "alt_text", "caption", "title", "name", "label", "description")

_SIMPLE = re.compile(r"[A-Za-z(][A-Za-z0-9 ,.;:()%€+_–-]{0,158}")
_ADDRESS = ("http:", "https:", "HTTP:", "HTTPS:", "Http:", "Https:")


class RemainingParts:
    """How many more parts are rendered one by one."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_PARTS) -> None:
        self.left = left

    def take(self, count: int = 1) -> None:
        """Count parts that are rendered."""
        self.left -= count


class KeyLabel:
    """The label of a key, and what its name says about the values."""

    __slots__ = ("amount", "content_type", "label", "picture", "short", "wide")

    def __init__(self, key: str, label: str, content_type: ContentType | None = None) -> None:
        self.label = label
        self.short = f"<div><dt><bdi>{label}</bdi></dt><dd>"
        self.wide = f'<div class="wide"><dt><bdi>{label}</bdi></dt><dd>'
        named = type_from_name(key)
        self.content_type = content_type or named
        self.picture = named if named is not None and named.name == "image" else None
        self.amount = display_forms.is_amount(key)


Shown = tuple[str, bool]


class ValueRenderer:
    """Renders values in one language; every value has a readable form."""

    def __init__(self, language: Language) -> None:
        self.writing = MarkupWriter(language)
        self.previews = Previews(self.writing, self)
        self._language = language
        self._yes, self._no = self.writing.t("Yes"), self.writing.t("No")
        self._nothing = f'<span class="nothing">{self.writing.t("nothing")}</span>'
        self._number = lru_cache(CACHE_SIZE, typed=True)(lambda value: str(escape(language.number(value))))
        self._dated = lru_cache(CACHE_SIZE)(self._render_date)
        self._known_name = lru_cache(CACHE_SIZE)(self._make_name)
        self._unnamed = self._make_name("")
        self._by_type: dict[type, Callable[[Any, int, RemainingParts, KeyLabel], Shown]] = {
            str: self._render_text,
            bool: self._render_boolean,
            int: self._render_number,
            float: self._render_number,
            dict: self._render_mapping,
            list: self._render_list,
            tuple: self._render_list,
        }

    # Called by templates

    def show(self, value: Any) -> Markup:
        """Return any value as markup."""
        return as_markup(self._render(value, 0, RemainingParts(), self._unnamed)[0])

    def facts(self, values: Mapping[str, Any]) -> Markup:
        """Return an object as labelled facts, or "nothing" if it is empty."""
        return as_markup(self._render_facts(values, 0, RemainingParts()) if values else self._nothing)

    def pieces(self, values: Mapping[str, Any]) -> Iterator[Markup]:
        """Yield the facts in pieces for a template to loop over, so that other requests can run."""
        return self.writing.iterate_pieces(lambda: self.facts(values))

    def artifact_pieces(
        self, value: Any, context: Mapping[str, Any], service: str | None = None
    ) -> tuple[Iterator[Markup], frozenset[str]]:
        """Return what the reviewer decides about, in pieces, and the hints that need not be shown.

        The context may name the content type; the hints are the keys with which it does.
        """
        hints: frozenset[str] = frozenset()

        def draw() -> str:
            nonlocal hints
            drawn, hints = self._render_artifact(value, context, service)
            return drawn

        pieces = self.writing.iterate_pieces(draw)
        return pieces, hints

    def _render_artifact(
        self, value: Any, context: Mapping[str, Any], service: str | None
    ) -> tuple[str, frozenset[str]]:
        label, content_type = self._find_caption(context) or self._describe_image(service), None
        if isinstance(value, str) and value.strip():
            key = next((key for key, part in context.items() if part is value), "artifact")
            found, hints = find_content_type(context, key, value)
            preview = self._render_preview(found, value, label) if found else None
            if preview:
                return preview[0], hints
            content_type = type_from_name(key)
        return self._render(value, 0, RemainingParts(), KeyLabel("", label, content_type))[0], frozenset()

    def value(self, value: Any) -> str:
        """Return any value as part of a preview."""
        return self._render(value, 1, RemainingParts(MAX_PARTS // 2), self._unnamed)[0]

    def picture(self, value: Any, alt: str | None = None) -> Markup:
        """Return an image with its alternative text; empty if it may not be shown."""
        shown = images.render_picture(value, self.writing.write_text(alt) if alt else self.writing.t("Image"))
        return as_markup(shown or "")

    def mark(self, text: object) -> Markup:
        """Return a foreign text as markup with its hidden characters marked."""
        return as_markup(self.writing.write_text(str(text)))

    def link_warnings(self, text: object) -> Markup:
        """Return the warnings about the URLs in a text."""
        return as_markup(self.writing.write_link_warnings(str(text)))

    def fact(self, key: str, value: Any) -> tuple[str, str, bool]:
        """Return a fact's label and value as markup, and whether the value needs the full width."""
        name = self.name(key)
        shown, wide = self._render(value, 1, RemainingParts(), name)
        return name.label, shown, wide

    def name(self, key: str) -> KeyLabel:
        """Return the label of a key; short ones are cached."""
        return self._known_name(key) if len(key) <= display_forms.MAX_KEY_LENGTH else self._make_name(key)

    # One value

    def _render(self, value: Any, depth: int, room: RemainingParts, name: KeyLabel) -> Shown:
        show = self._by_type.get(type(value))
        if show is not None:
            return show(value, depth, room, name)
        if value is None:
            return self._nothing, False
        if isinstance(value, Mapping):
            return self._render_mapping(value, depth, room, name)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return self._render_list(value, depth, room, name)
        return self._render_text(str(value), depth, room, name)

    def _render_boolean(self, value: bool, depth: int, room: RemainingParts, name: KeyLabel) -> Shown:
        return (self._yes if value else self._no), False

    def _render_number(self, value: float, depth: int, room: RemainingParts, name: KeyLabel) -> Shown:
        if -10_000 < value < 10_000 and type(value) is int:
            return str(value), False
        return (self._number(value) if name.amount else str(value)), False

    def _render_text(self, text: str, depth: int, room: RemainingParts, name: KeyLabel) -> Shown:
        if name.content_type is not None and text and not text.isspace():
            shown = self._render_preview(name.content_type, text, name.label)
            if shown:
                return shown
        if _SIMPLE.fullmatch(text) and not text.startswith(_ADDRESS):
            return f"<bdi>{text}</bdi>", False
        if text.startswith("https://") and links.find_ordinary_host(text):
            return self.link(text), False
        look = display_forms.choose_text_form(text)
        if look == "nothing":
            return self._nothing, False
        if look == "link":
            return self.link(text), False
        if look in ("day", "moment"):
            return self._dated(text), False
        content_type = self.previews.recognise(text) if name.content_type is None else None
        shown = None if content_type is None else self._render_preview(content_type, text, name.label)
        if shown:
            return shown
        if look == "lines":
            return self.writing.write_lines(text) + self.writing.write_link_warnings(text), True
        return f"<bdi>{self.writing.write_text(text)}</bdi>{self.writing.write_link_warnings(text)}", False

    def _render_preview(self, content_type: ContentType, text: str, alt: str) -> Shown | None:
        return self.previews.show(content_type, text, _strip_markup(alt) or self._describe_image(None))

    def link(self, address: str) -> str:
        """Return a URL as a link that shows its host, with warnings about it."""
        host = links.find_ordinary_host(address)
        if host:
            path = escape(address[8 + len(host) :])
            return f'<a href="https://{host}{path}" {links.REL}>https://<b>{host}</b>{path}</a>'
        host = links.find_host(address)
        before, found, after = address.partition(host)
        shown = f"{escape(before)}<b>{escape(found)}</b>{escape(after)}" if found else escape(address)
        return (
            f'<a href="{escape(address)}" {links.REL}>{shown}</a>{self.writing.write_link_warnings(address)}'
        )

    def _render_date(self, text: str) -> str:
        moment = display_forms.parse_moment(text)
        day = display_forms.parse_day(text)
        said = self._language.exact(moment) if moment else self._language.day(day) if day else text
        return f'<time datetime="{escape(text)}">{escape(said)}</time>'

    def _make_name(self, key: str) -> KeyLabel:
        return KeyLabel(key, self.writing.write_text(display_forms.format_label(key)))

    def _describe_image(self, service: str | None) -> str:
        if service:
            return self.writing.t("Image from {service}", service=mark_hidden(service))
        return self.writing.t("Image")

    # Objects

    def _render_mapping(
        self, values: Mapping[str, Any], depth: int, room: RemainingParts, name: KeyLabel
    ) -> Shown:
        if not values:
            return self._nothing, False
        shown = self._render_facts(values, depth, room, name.label)
        if depth >= FOLD_DEPTH and len(values) >= FOLD_PARTS:
            count = self.writing.tn("{count} field", "{count} fields", len(values))
            return self.writing.write_fold(count, shown), True
        return shown, True

    def _render_facts(
        self, values: Mapping[str, Any], depth: int, room: RemainingParts, alt: str = ""
    ) -> str:
        types, taken = find_hinted_types(values)
        if types and len(values) == len(taken) + 1:
            only = next(iter(types))
            preview = self._render_preview(types[only], values[only], alt)
            if preview:
                return preview[0]
        rows = []
        for number, (key, value) in enumerate(values.items()):
            if key in taken:
                continue
            if room.left <= 0 or depth > MAX_DEPTH:
                rest = dict(list(values.items())[number:])
                rows.append(
                    f'<div class="wide"><dt></dt><dd>{self._render_as_text(rest, len(rest))}</dd></div>'
                )
                break
            room.take()
            name = self.name(key if type(key) is str else str(key))
            content_type = types.get(key, name.picture)
            preview = (
                None
                if content_type is None
                else self._render_value_preview(content_type, value, name, values)
            )
            shown, wide = preview or self._render(value, depth + 1, room, name)
            rows.append(f"{name.wide if wide else name.short}{shown}</dd></div>")
        rows.append(self._render_text_change(values, room))
        css = "facts deep" if depth > FOLD_DEPTH else "facts"
        return f'<dl class="{css}">{"".join(rows)}</dl>'

    def _render_text_change(self, values: Mapping[str, Any], room: RemainingParts) -> str:
        """Return another fact if an object holds two versions of a text."""
        pair = find_versions(values)
        if pair is None or room.left <= 0:
            return ""
        room.take((len(pair[0]) + len(pair[1])) // 10)
        shown = render_changes(self.writing, *pair)
        return f'<div class="wide"><dt>{self.writing.t("What changed")}</dt><dd>{shown}</dd></div>'

    def _render_value_preview(
        self, content_type: ContentType, value: Any, name: KeyLabel, beside: Mapping[str, Any]
    ) -> Shown | None:
        if not isinstance(value, str) or not value.strip():
            return None
        alt = self._find_caption(beside) if content_type.name == "image" else ""
        return self._render_preview(content_type, value, alt or name.label)

    def _find_caption(self, values: Mapping[str, Any]) -> str:
        """Return the text beside an image that describes it."""
        texts = (values.get(key) for key in CAPTIONS)
        return next(
            (self.writing.write_text(text) for text in texts if isinstance(text, str) and text.strip()), ""
        )

    # Lists

    def _render_list(self, values: Sequence[Any], depth: int, room: RemainingParts, name: KeyLabel) -> Shown:
        if not values:
            return self._nothing, False
        if room.left <= 0 or depth > MAX_DEPTH:
            return self._render_as_text(values, len(values)), True
        look = display_forms.choose_list_form(values)
        if look == "table":
            return self._render_table_or_items(values, depth, room), True
        if look == "items":
            return self._render_items(values, depth, room, name, '<ul class="items">', "</ul>"), False
        return self._render_items(values, depth, room, name, '<ol class="entries">', "</ol>"), True

    def _render_items(
        self, values: Sequence[Any], depth: int, room: RemainingParts, name: KeyLabel, start: str, end: str
    ) -> str:
        parts: list[str] = []
        for value in values:
            if room.left <= 0:
                break
            room.take()
            parts.append(f"<li>{self._render(value, depth + 1, room, name)[0]}</li>")
        shown = len(parts)
        if len(values) > SHOWN_ROWS * 4 // 3:
            head, rest = parts[:SHOWN_ROWS], parts[SHOWN_ROWS:]
            counted = start.replace(">", f' start="{SHOWN_ROWS + 1}">') if start.startswith("<ol") else start
            inside = f"{counted}{''.join(rest)}{end}" if rest else ""
            inside += self._render_rest(values, shown)
            return f"{start}{''.join(head)}{end}{self._fold_items(len(values), inside)}"
        return f"{start}{''.join(parts)}{end}{self._render_rest(values, shown)}"

    def _fold_items(self, count: int, inside: str) -> str:
        return self.writing.write_fold(self.writing.tn("Show it", "Show all {count}", count), inside)

    def _render_rest(self, values: Sequence[Any], shown: int) -> str:
        return self._render_as_text(values[shown:], len(values) - shown) if shown < len(values) else ""

    def _render_table_or_items(
        self, values: Sequence[Mapping[str, Any]], depth: int, room: RemainingParts
    ) -> str:
        width = len(display_forms.list_columns(values[: display_forms.EXAMINED_ROWS]))
        rows = values[: max(2, room.left // max(width, 1))]
        if not all(isinstance(row, Mapping) for row in rows):
            return self._render_items(values, depth, room, self._unnamed, '<ol class="entries">', "</ol>")
        names = display_forms.list_columns(rows)
        room.take(len(rows) * len(names))
        drawn = self.table(names, [[row.get(name) for name in names] for row in rows], depth, room)
        left_over = self._render_rest(values, len(rows))
        return drawn + left_over

    def table(
        self, names: Sequence[str], rows: list[list[Any]], depth: int = 0, room: RemainingParts | None = None
    ) -> str:
        """Return a table; rows after the first ones are folded."""
        room = room or RemainingParts()
        numeric = [
            all(type(row[place]) in (int, float, type(None)) for row in rows) for place in range(len(names))
        ]
        heads = [self.name(name) for name in names]
        head = "".join(
            f'<th role="columnheader" scope="col"{_NUMBER if number else ""}><bdi>{name.label}</bdi></th>'
            for name, number in zip(heads, numeric, strict=True)
        )
        cells = [
            (
                f'<td role="cell"{_NUMBER if number else ""} data-label="{_strip_markup(name.label)}"><div>',
                name,
            )
            for name, number in zip(heads, numeric, strict=True)
        ]
        drawn = [self._render_row(cells, row, depth, room) for row in rows]
        start = f'<table role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        if len(drawn) <= SHOWN_ROWS * 4 // 3:
            return f'{start}<tbody role="rowgroup">{"".join(drawn)}</tbody></table>'
        first, rest = "".join(drawn[:SHOWN_ROWS]), "".join(drawn[SHOWN_ROWS:])
        more = f'{start}<tbody role="rowgroup">{rest}</tbody></table>'
        return f'{start}<tbody role="rowgroup">{first}</tbody></table>{self._fold_rows(len(drawn), more)}'

    def _render_row(
        self, cells: list[tuple[str, KeyLabel]], row: list[Any], depth: int, room: RemainingParts
    ) -> str:
        shown = [
            f"{start}{self._render(value, depth + 1, room, name)[0]}</div></td>"
            for (start, name), value in zip(cells, row, strict=True)
        ]
        return f'<tr role="row">{"".join(shown)}</tr>'

    def _fold_rows(self, count: int, inside: str) -> str:
        return self.writing.write_fold(
            self.writing.tn("Show the row", "Show all {count} rows", count), inside
        )

    # Large values

    def _render_as_text(self, value: Any, count: int) -> str:
        """Return the rest of a large value as text."""
        summary = self.writing.tn("{count} more, as text", "{count} more, as text", count)
        inside = self.writing.write_scrolling_text(
            format_as_json(self.writing, value), self.writing.t("As text")
        )
        return self.writing.write_fold(summary, inside)


_NUMBER = ' class="number"'


def _strip_markup(markup: str) -> str:
    """Return the text of a label without its markup."""
    return re.sub(r"<[^>]*>", "", markup) if "<" in markup else markup
