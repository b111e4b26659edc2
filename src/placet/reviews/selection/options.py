"""The options of a selection, and how many of them can be selected."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.reviews.answer_limits import MAX_IDS
from placet.reviews.entries import ListEntry, find_spelling, read_entries

OPTION_SPELLINGS = ("options", "options_preview", "choices", "items", "candidates", "jobs", "results")
MIN_SPELLINGS = ("min_selections", "min")
MAX_SPELLINGS = ("max_selections", "max")
ADVICE_SPELLINGS = ("recommended", "recommended_id", "recommended_ids")
ADVISED = {"recommended": True}
LIMIT_NAMES = (*MIN_SPELLINGS, *MAX_SPELLINGS, "multiple")


class Choice(Struct, frozen=True, kw_only=True):
    """The options in order, their context key, and the limits."""

    source: str | None
    options: tuple[ListEntry, ...]
    least: int
    most: int


def read_choice(context: Mapping[str, Any]) -> Choice:
    """Return the options and limits; raise ValidationFailed if nothing can be selected."""
    source = _find_options_key(context)
    options = read_entries(context, source) if source else ()
    count = len(options) if options else MAX_IDS
    single = _is_single(context)
    least = _read_limit(context, MIN_SPELLINGS, default=1)
    most = _read_limit(context, MAX_SPELLINGS, default=1 if single else count)
    if single and (least > 1 or most > 1):
        raise ValidationFailed(
            "context.multiple is false, so at most one can be picked.", path="context.multiple"
        )
    if not least <= min(most, count) or most < 1:
        raise ValidationFailed(
            f"context allows {least} to {most} selections, which {count} options do not permit.",
            path="context",
        )
    return Choice(source=source, options=options, least=max(least, int(single)), most=min(most, count))


def find_recommended(context: Mapping[str, Any], choice: Choice) -> tuple[frozenset[str], str | None]:
    """Return the ids of the options that the service recommends, and the context key that names them."""
    name = find_spelling(context, ADVICE_SPELLINGS)
    raw = context[name] if name else None
    ids = [raw] if isinstance(raw, str) else raw
    known = {option.id for option in choice.options}
    if isinstance(ids, list | tuple) and all(isinstance(one, str) and one in known for one in ids):
        return frozenset(ids), name
    return frozenset(), None


def _find_options_key(context: Mapping[str, Any]) -> str | None:
    if context.get("options") is not None:
        return "options"
    # Keys such as `items` or `results` may also hold a plain fact, such as a count.
    lists = {name: value for name, value in context.items() if isinstance(value, list | tuple)}
    return find_spelling(lists, OPTION_SPELLINGS)


def _is_single(context: Mapping[str, Any]) -> bool:
    multiple = context.get("multiple", True)
    if not isinstance(multiple, bool):
        raise ValidationFailed("context.multiple must be true or false.", path="context.multiple")
    return not multiple


def _read_limit(context: Mapping[str, Any], spellings: tuple[str, ...], *, default: int) -> int:
    name = find_spelling(context, spellings)
    if name is None:
        return default
    value = context[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        path = f"context.{name}"
        raise ValidationFailed(f"{path} must be a whole number, zero or more.", path=path)
    return value
