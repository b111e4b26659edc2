"""Find the content type of a text from hints beside it (`format`, `content_type`) or from its key."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

MAX_HINT_LENGTH = 100


class ContentType(Struct, frozen=True):
    """How to show a text, and the name of its programming language."""

    name: str
    language: str = ""


CONTENTS = (
    *("content", "body", "text", "artifact", "draft", "document", "preview", "html", "markdown", "code"),
    *("diff", "patch", "source", "snippet", "data", "value", "message", "image", "url", "src"),
)
HINTS = (
    *("content_type", "contentType", "mime_type", "mimeType", "mimetype", "media_type", "mediaType"),
    *("format", "type", "kind", "syntax", "language", "lang"),
)
FILE_NAMES = ("filename", "file_name", "file", "path", "name")
# `artifact_format` is a hint about `artifact`.
_HINTED = {f"{content}_{hint}": content for content in CONTENTS for hint in HINTS}
_ALL_CONTENTS = frozenset(CONTENTS)
_ALL_HINTS = frozenset((*HINTS, *FILE_NAMES, *_HINTED))

_WORDS = {
    "markdown": "markdown",
    "md": "markdown",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
    "json": "json",
    "csv": "csv",
    "tsv": "csv",
    "diff": "diff",
    "patch": "diff",
    "code": "code",
    "log": "code",
    "image": "image",
    "png": "image",
    "jpg": "image",
    "jpeg": "image",
    "gif": "image",
    "webp": "image",
}
_MEDIA = {"x-diff": "diff", "x-patch": "diff", "tab-separated-values": "csv", "x-markdown": "markdown"}
_PROGRAMMING = (
    "bash c clojure cpp csharp css dart dockerfile elixir go graphql groovy haskell hcl ini java javascript"
    " js jsx julia kotlin latex lua makefile nginx perl php powershell properties protobuf py python r rb rs"
    " ruby rust scala scss sh shell sql svelte swift terraform tex tf toml ts tsx typescript vue xml yaml yml"
)
_LANGUAGES = frozenset(_PROGRAMMING.split())
_NAMED = re.compile(
    r"(?:.*[_.-])?(?:(?P<markdown>markdown|(?<=[_.])md)|(?P<html>html)|(?P<json>(?<=[_.])json|json)"
    r"|(?P<csv>[ct]sv)|(?P<diff>diff|patch)"
    r"|(?P<image>image|photo|picture|screenshot|thumbnail|logo|avatar|cover)(?:_ur[il])?)"
)
_MACHINE_TEXTS = (
    "code snippet source_code script sql query yaml config configuration log logs log_excerpt stdout stderr"
    " output traceback stack_trace stacktrace stack command commands"
)
_CODE_NAMES = frozenset(_MACHINE_TEXTS.split())
_NOTHING: tuple[dict[str, ContentType], frozenset[str]] = ({}, frozenset())


def find_hinted_types(
    values: Mapping[str, Any], main: str | None = None
) -> tuple[dict[str, ContentType], frozenset[str]]:
    """Return the content types of an object's texts by key, and the hints that need not be shown.

    Hints such as `format` are about `main`, or else about the text with the most common name.
    """
    if _ALL_HINTS.isdisjoint(values) or _ALL_CONTENTS.isdisjoint(values):
        return _NOTHING
    found: dict[str, ContentType] = {}
    taken = set()
    for key in _HINTED.keys() & values.keys():
        content = _HINTED[key]
        content_type = parse_hint(values[key]) if _is_text(values.get(content)) else None
        if content_type:
            found[content] = content_type
            taken.add(key)
    if main is None:
        main = next((name for name in CONTENTS if _is_text(values.get(name))), None)
    if main is not None and main not in found:
        content_type, hints = _find_type_in_hints(values, main)
        found |= {main: content_type} if content_type else {}
        taken |= hints
    return found, frozenset(taken)


def find_content_type(
    values: Mapping[str, Any], key: str, text: str
) -> tuple[ContentType | None, frozenset[str]]:
    """Return the content type that an object gives for the text under this key, and the hints used."""
    types, taken = find_hinted_types({**values, key: text}, key)
    return types.get(key), frozenset(hint for hint in taken if _HINTED.get(hint, key) == key)


def _find_type_in_hints(values: Mapping[str, Any], content: str) -> tuple[ContentType | None, set[str]]:
    """Return the content type from the hints of an object; a named language is preferred to `code`."""
    found: ContentType | None = None
    taken = set()
    for hint in HINTS:
        content_type = parse_hint(values[hint]) if hint in values and hint != content else None
        if content_type and (found is None or found.name == "code"):
            found = content_type
            taken.add(hint)
    if found is None:
        found = next(
            (content_type for name in FILE_NAMES if (content_type := _type_from_file_name(values.get(name)))),
            None,
        )
    return found, taken


def parse_hint(hint: Any) -> ContentType | None:
    """Return the content type named by a media type or a word such as `markdown`, or None."""
    return (
        _parse_normalized_hint(hint.strip().lower())
        if isinstance(hint, str) and len(hint) <= MAX_HINT_LENGTH
        else None
    )


@lru_cache(maxsize=512)
def _parse_normalized_hint(hint: str) -> ContentType | None:
    main, _, sub = hint.partition(";")[0].strip().rpartition("/")
    if main == "image":
        return ContentType("image")
    word = sub.strip()
    if main and word in _MEDIA:
        return ContentType(_MEDIA[word])
    for part in re.split(r"[\s_.+-]+", word.removeprefix("x-")):
        if part in _WORDS:
            return ContentType(_WORDS[part])
        if part in _LANGUAGES:
            return ContentType("code", part)
    return None


def type_from_name(key: str) -> ContentType | None:
    """Return the content type that a key implies (`readme.md`, `body_html`, `screenshot`), or None."""
    if len(key) > MAX_HINT_LENGTH:
        return None
    name = key.lower()
    if name in _CODE_NAMES:
        return ContentType("code")
    found = _NAMED.fullmatch(name)
    return ContentType(str(found.lastgroup)) if found else _type_from_file_name(key)


def _type_from_file_name(name: Any) -> ContentType | None:
    if not isinstance(name, str) or len(name) > MAX_HINT_LENGTH * 10 or "\n" in name:
        return None
    stem, dot, ending = name.rpartition(".")
    return parse_hint(ending) if dot and stem and re.fullmatch(r"\w{1,10}", ending) else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
