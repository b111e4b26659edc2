"""Where edited arguments do not fit the tool's schema, in words that a person can act on and translate."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from placet.protocol.conversion import quote
from placet.protocol.json_schema import compile_schema
from placet.text.wording import Message, counted, message

MOST = 20
MOST_NAMED = 10

Path = tuple[str | int, ...]


class Misfit(Struct, frozen=True, kw_only=True):
    """One place, and what to write there instead."""

    path: Path
    words: Message


def misfits(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> list[Misfit]:
    """What does not fit; empty if all does, or if there is no schema to fit."""
    if schema is None:
        return []
    found = islice(compile_schema(schema).iter_errors(dict(arguments)), MOST)
    return [_misfit(error.kind.name, error.kind.as_dict(), tuple(error.instance_path)) for error in found]


def _misfit(keyword: str, told: Mapping[str, Any], path: Path) -> Misfit:
    if keyword == "required":
        return Misfit(path=(*path, str(told.get("property"))), words=message("The tool needs this."))
    words = _WORDS.get(keyword)
    return Misfit(
        path=path, words=words(told) if words else message("This does not fit what the tool takes.")
    )


def _type(told: Mapping[str, Any]) -> Message:
    types = [kind for kind in told.get("types", ()) if kind != "null"]
    unknown = message("This does not fit what the tool takes.")
    return _TYPES.get(types[0], unknown) if len(types) == 1 else unknown


def _choices(told: Mapping[str, Any]) -> Message:
    options = told.get("options", [told.get("expected_value")])
    named = [quote(str(one), 40) for one in options[:MOST_NAMED]]
    more = ", …" if len(options) > MOST_NAMED else ""
    return message("The tool takes only these: {choices}.", choices=", ".join(named) + more)


def _unexpected(told: Mapping[str, Any]) -> Message:
    named = [quote(str(one), 40) for one in told.get("unexpected", ())[:MOST_NAMED]]
    return message("The tool does not take these: {names}.", names=", ".join(named))


def _limit(told: Mapping[str, Any]) -> Any:
    return told.get("limit")


_TYPES: Mapping[str, Message] = {
    "string": message("This must be text."),
    "integer": message("Type a whole number here."),
    "number": message("Type a number here, with a point before decimals."),
    "boolean": message("Choose yes or no."),
    "array": message("This must be a list."),
    "object": message("This must be an object."),
}
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "type": _type,
    "enum": _choices,
    "const": _choices,
    "additionalProperties": _unexpected,
    "unevaluatedProperties": _unexpected,
    "minimum": lambda told: message("Write {minimum} or more.", minimum=_limit(told)),
    "maximum": lambda told: message("Write {maximum} or less.", maximum=_limit(told)),
    "exclusiveMinimum": lambda told: message("Write more than {limit}.", limit=_limit(told)),
    "exclusiveMaximum": lambda told: message("Write less than {limit}.", limit=_limit(told)),
    "multipleOf": lambda told: message("Write a multiple of {factor}.", factor=told.get("multiple_of")),
    "minLength": lambda told: counted(
        "Write at least {minimum} character.",
        "Write at least {minimum} characters.",
        count=_limit(told),
        minimum=_limit(told),
    ),
    "maxLength": lambda told: counted(
        "At most one character.", "At most {count} characters.", count=_limit(told)
    ),
    "minItems": lambda told: counted(
        "At least one entry is needed.", "At least {count} entries are needed.", count=_limit(told)
    ),
    "maxItems": lambda told: counted(
        "At most one entry fits.", "At most {count} entries fit.", count=_limit(told)
    ),
    "uniqueItems": lambda told: message("No two entries may be the same."),
    "pattern": lambda told: message(
        "This must match the pattern {pattern}.", pattern=quote(str(told.get("pattern")), 100)
    ),
    "format": lambda told: message(
        "This must have the format {format}.", format=quote(str(told.get("format")), 40)
    ),
}
