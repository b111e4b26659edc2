"""Lists of entries in a context to select or confirm. Each entry has an id, a title, and details."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.conversion import quote
from placet.reviews.answer_limits import MAX_IDS
from placet.text.characters import normalize_newlines

ID_SPELLINGS = ("id", "value", "key")
TITLE_SPELLINGS = ("title", "label", "name")
MAX_ID_LENGTH = 500


class ListEntry(Struct, frozen=True, kw_only=True):
    """One entry of a list."""

    id: str
    title: str
    details: dict[str, Any] = {}


def find_spelling(context: Mapping[str, Any], spellings: Sequence[str]) -> str | None:
    """Return the first of the spellings that the context has a value for, or None."""
    for name in spellings:
        if context.get(name) is not None:
            return name
    return None


def read_entries(context: Mapping[str, Any], name: str) -> tuple[ListEntry, ...]:
    """Return the entries under `name`; raise ValidationFailed unless each has a unique id."""
    raw = context[name]
    path = f"context.{name}"
    if not isinstance(raw, list | tuple) or not raw:
        raise ValidationFailed(f"{path} must be a list with at least one entry.", path=path)
    if len(raw) > MAX_IDS:
        raise ValidationFailed(f"{path} holds {len(raw):,} entries; send at most {MAX_IDS:,}.", path=path)
    listed = tuple(_read_one(entry, f"{path}[{number}]") for number, entry in enumerate(raw))
    _check_distinct(listed, path)
    return listed


def list_ids(context: Mapping[str, Any], name: str) -> list[str]:
    """Return the ids of a list that was validated when its case was opened."""
    return [
        entry if isinstance(entry, str) else str(entry[find_spelling(entry, ID_SPELLINGS)])
        for entry in context[name]
    ]


def _read_one(entry: object, path: str) -> ListEntry:
    if isinstance(entry, str):
        return ListEntry(id=_check_id(entry, path), title=entry)
    if not isinstance(entry, dict):
        raise ValidationFailed(f"{path} must be an object with an id, or text.", path=path)
    id_name = find_spelling(entry, ID_SPELLINGS)
    if id_name is None:
        raise ValidationFailed(f"{path} needs an id.", path=path)
    identity = _check_id(entry[id_name], f"{path}.{id_name}")
    title_name = _find_title_key(entry)
    details = {key: value for key, value in entry.items() if key not in (id_name, title_name)}
    return ListEntry(id=identity, title=entry[title_name] if title_name else identity, details=details)


def _find_title_key(entry: Mapping[str, Any]) -> str | None:
    for name in TITLE_SPELLINGS:
        if _is_text(entry.get(name)):
            return name
    return None


def _check_id(raw: object, path: str) -> str:
    identity = str(raw) if isinstance(raw, int) and not isinstance(raw, bool) else raw
    if not _is_text(identity) or len(str(identity)) > MAX_ID_LENGTH:
        raise ValidationFailed(f"{path} must be text of 1 to {MAX_ID_LENGTH} characters.", path=path)
    return str(identity)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_distinct(listed: tuple[ListEntry, ...], path: str) -> None:
    seen: set[str] = set()
    for number, entry in enumerate(listed):
        identity = normalize_newlines(entry.id)  # forms cannot distinguish ids that differ only in line ends
        if identity in seen:
            where = f"{path}[{number}]"
            raise ValidationFailed(f"{where} repeats the id {quote(entry.id)}.", path=where)
        seen.add(identity)
