"""Render texts of a known content type: Markdown, code, diffs, JSON, tables, HTML as text, images."""

import csv
import re
from collections.abc import Callable
from io import StringIO
from itertools import islice
from typing import Any, Protocol

import msgspec

from placet.pages.content import images, links
from placet.pages.content.content_types import ContentType
from placet.pages.content.html_text import MAX_HTML_LENGTH, extract_text
from placet.pages.content.markdown import Markdown
from placet.pages.content.markup_writer import MarkupWriter, as_markup, split_long_text

MAX_TREE_LENGTH = 200_000
MAX_GUESSED_LENGTH = 50_000
MAX_NUMBERED_LINES = 3000
MAX_CELLS = 3000
MAX_FIELDS = 40

_DIFF = re.compile(r"(?:diff --git |index |Index: |--- )[^\n]*\n|@@ -\d", re.ASCII)
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE | re.ASCII)
_BASE64_IMAGE = re.compile(r"\s*(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)")
_BASE64_MEDIA = {"i": "image/png", "/": "image/jpeg", "R": "image/gif", "U": "image/webp"}

Shown = tuple[str, bool]


class ValueMarkup(Protocol):
    """What previews need from the renderer of values."""

    def link(self, address: str) -> str: ...
    def value(self, value: Any) -> str: ...
    def table(self, names: list[str], rows: list[list[Any]]) -> str: ...


class Previews:
    """Renders each content type; a text that is not of its declared type is shown as text."""

    def __init__(self, writing: MarkupWriter, values: ValueMarkup) -> None:
        self._writing = writing
        self._values = values
        self._markdown = Markdown(writing, values)
        self._by_content_type: dict[str, Callable[[str, ContentType, str], str | None]] = {
            "markdown": self._as_markdown,
            "html": self._as_html,
            "json": self._as_json,
            "csv": self._as_csv,
            "diff": self._as_diff,
            "code": self._as_code,
            "image": self._as_image,
        }

    def show(self, content_type: ContentType, text: str, alt: str) -> Shown | None:
        """Return the preview and whether it needs the full width; None if the text is not of this type."""
        shown = self._by_content_type[content_type.name](text, content_type, alt)
        return None if shown is None else (shown, True)

    def recognise(self, text: str) -> ContentType | None:
        """Return the content type of a text recognised by its start: image data, JSON or a unified diff."""
        start, head = text[:2], text[:MAX_GUESSED_LENGTH]
        if start == "da" and text.startswith("data:image/"):
            return ContentType("image")
        if start[0] == "{" or (start[0] == "[" and head.lstrip("[ \n\t").startswith("{")):
            is_whole = len(text) <= MAX_GUESSED_LENGTH and text.rstrip()[-1:] in "}]"
            return ContentType("json") if is_whole else None
        if start[0] in "dIi-@" and "\n" in text and _DIFF.match(text) and _HUNK.search(head):
            return ContentType("diff")
        return None

    # Content types

    def _as_markdown(self, text: str, content_type: ContentType, alt: str) -> str | None:
        draw = self._markdown.draw(text)
        if draw is None:
            return self._add_caption(
                self._writing.t("Markdown, shown as it was written"), self._writing.write_lines(text)
            )
        return self._add_caption(
            self._writing.t("Markdown"),
            f'<div class="markdown" dir="auto">{self._writing.render_later(draw)}</div>'
            f"{self._add_source(text)}",
        )

    def _as_html(self, text: str, content_type: ContentType, alt: str) -> str | None:
        if "<" not in text:
            return None
        words = extract_text(text) if len(text) <= MAX_HTML_LENGTH else ""
        if not words:
            return self._add_caption(self._writing.t("HTML, shown as it was written"), self._write_code(text))
        return self._add_caption(
            self._writing.t("HTML, only its words"),
            self._writing.write_lines(words) + self._add_source(text),
        )

    def _as_json(self, text: str, content_type: ContentType, alt: str) -> str | None:
        if len(text) > MAX_TREE_LENGTH:
            formatted = _format_json(text)
            return None if formatted is None else self._add_caption("JSON", self._write_code(formatted))
        try:
            value = msgspec.json.decode(text.encode())
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
        if not isinstance(value, dict | list) or not value:
            return None
        return self._add_caption("JSON", self._values.value(value) + self._add_source(text))

    def _as_csv(self, text: str, content_type: ContentType, alt: str) -> str | None:
        rows = _read_rows(text)
        if len(rows) < 2 or not 1 < len(rows[0]) <= MAX_FIELDS:
            return None
        names = [name.strip() or f"{place}" for place, name in enumerate(rows[0], 1)]
        if len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
            return None
        most = MAX_CELLS // len(names)
        table = self._values.table(
            names, [[_format_cell(cell) for cell in row] for row in rows[1 : most + 1]]
        )
        name = self._writing.t("Table")
        scroll = f'<div class="scroll" tabindex="0" role="group" aria-label="{name}">{table}</div>'
        return self._add_caption(self._writing.t("Table"), scroll + self._add_source(text))

    def _as_diff(self, text: str, content_type: ContentType, alt: str) -> str | None:
        if "\n" not in text or not ("\n+" in text or "\n-" in text):
            return None
        added = text.count("\n+") - text.count("\n+++ ")
        removed = text.count("\n-") - text.count("\n--- ")
        caption = self._writing.write_list(
            self._writing.tn("{count} line added", "{count} lines added", added),
            self._writing.tn("{count} line removed", "{count} lines removed", removed),
        )
        return self._add_caption(
            caption, self._render_folded(text, self._mark_lines, self._writing.t("Changes"))
        )

    def _as_code(self, text: str, content_type: ContentType, alt: str) -> str | None:
        if "\n" not in text.strip("\n") and not content_type.language:
            return None
        return self._add_caption(self._writing.write_text(content_type.language), self._write_code(text))

    def _as_image(self, text: str, content_type: ContentType, alt: str) -> str | None:
        if _BASE64_IMAGE.match(text):
            text = images.data_url_from_base64(_BASE64_MEDIA[text.strip()[0]], text) or text
        shown = images.render_picture(text, alt)
        if shown:
            return shown
        if links.is_link(text):
            return self._writing.t("Image not shown here: {what}", what=as_markup(self._values.link(text)))
        if text.startswith("data:"):
            media = self._writing.write_inline(text[5:60].partition(";")[0].partition(",")[0])
            return self._writing.write_fold(
                self._writing.t("Image that cannot be shown: {what}", what=as_markup(media)),
                self._writing.write_scrolling_text(
                    self._writing.write_long_text(text), self._writing.t("As text"), " broken"
                ),
            )
        return None

    # Parts

    def _add_caption(self, caption: str, inside: str) -> str:
        """Return a figure; `caption` and `inside` are markup."""
        head = f'<figcaption class="kind">{caption}</figcaption>' if caption else ""
        return f'<figure class="preview">{head}{inside}</figure>'

    def _add_source(self, text: str) -> str:
        """Return the source text in a closed fold."""
        inside = self._writing.write_scrolling_text(
            self._writing.write_long_text(text), self._writing.t("As it was written")
        )
        return self._writing.write_fold(self._writing.t("As it was written"), inside, "fold source-text")

    def _write_code(self, text: str) -> str:
        return self._render_folded(text, self._number_lines, self._writing.t("Code"))

    def _render_folded(self, text: str, draw: Callable[[str], str], name: str) -> str:
        head, rest = split_long_text(text.rstrip("\n"))
        shown = self._writing.write_scrolling_text(draw(head), name, " numbered")
        if rest:
            few = rest.count("\n") <= MAX_NUMBERED_LINES
            inside = (
                self._writing.write_many_lines(rest, draw) if few else self._writing.write_long_text(rest)
            )
            css = " numbered" if few else ""
            shown += self._writing.write_fold(
                self._writing.write_fold_summary(text), self._writing.write_scrolling_text(inside, name, css)
            )
        return f'<div class="listing">{shown}</div>'

    def _number_lines(self, text: str) -> str:
        # The text is escaped, so every tag in it is ours.
        return "<span>" + self._writing.write_text(text).replace("\n", "</span>\n<span>") + "</span>"

    def _mark_lines(self, text: str) -> str:
        lines = self._number_lines(text)
        for sign, tag in _SIGNS:
            lines = lines.replace(f"<span>{sign}", f"{tag}{sign}")
        return lines


_SIGNS = (
    ("+++ ", '<span class="file">'),
    ("--- ", '<span class="file">'),
    ("+", '<span class="added" role="insertion">'),
    ("-", '<span class="removed" role="deletion">'),
    ("@@", '<span class="place">'),
)


def _format_json(text: str) -> str | None:
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _read_rows(text: str) -> list[list[str]]:
    """Return the first rows of a CSV text, or an empty list if it is not one."""
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = csv.reader(StringIO(text.strip("\n"), newline=""), delimiter=delimiter, strict=True)
        return [row for row in islice(rows, MAX_CELLS + 1) if row]
    except csv.Error:
        return []


def _format_cell(text: str) -> Any:
    """Return a short number as an integer, so that it is aligned; any other text unchanged."""
    return int(text) if re.fullmatch(r"-?(0|[1-9]\d{0,3})", text, re.ASCII) else text
