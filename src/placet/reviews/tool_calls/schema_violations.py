"""Find where edited arguments violate the tool's schema, with translatable messages."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from placet.protocol.conversion import quote
from placet.protocol.json_schema import check_work, compile_schema
from placet.text.wording import Message, message, plural_message

MAX_VIOLATIONS = 20
MAX_NAMED = 10

ValuePath = tuple[str | int, ...]


class SchemaViolation(Struct, frozen=True, kw_only=True):
    """The path of an invalid value, and a message that says what to write instead."""

    path: ValuePath
    words: Message


def find_violations(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> list[SchemaViolation]:
    """Return the violations; empty if the arguments are valid or there is no schema."""
    if schema is None:
        return []
    checker, value = compile_schema(schema), dict(arguments)
    if not check_work(schema, value):
        unnamed = SchemaViolation(path=(), words=message("This does not fit what the tool takes."))
        return [] if checker.is_valid(value) else [unnamed]
    found = islice(checker.iter_errors(value), MAX_VIOLATIONS)
    return [
        _build_violation(error.kind.name, error.kind.as_dict(), tuple(error.instance_path)) for error in found
    ]


def _build_violation(keyword: str, details: Mapping[str, Any], path: ValuePath) -> SchemaViolation:
    if keyword == "required":
        return SchemaViolation(
            path=(*path, str(details.get("property"))), words=message("The tool needs this.")
        )
    words = _DESCRIPTIONS.get(keyword)
    return SchemaViolation(
        path=path, words=words(details) if words else message("This does not fit what the tool takes.")
    )


def _describe_type(details: Mapping[str, Any]) -> Message:
    types = [kind for kind in details.get("types", ()) if kind != "null"]
    unknown = message("This does not fit what the tool takes.")
    return _TYPES.get(types[0], unknown) if len(types) == 1 else unknown


def _describe_choices(details: Mapping[str, Any]) -> Message:
    options = details.get("options", [details.get("expected_value")])
    named = [quote(str(one), 40) for one in options[:MAX_NAMED]]
    more = ", …" if len(options) > MAX_NAMED else ""
    return message("The tool takes only these: {choices}.", choices=", ".join(named) + more)


def _describe_unexpected(details: Mapping[str, Any]) -> Message:
    named = [quote(str(one), 40) for one in details.get("unexpected", ())[:MAX_NAMED]]
    return message("The tool does not take these: {names}.", names=", ".join(named))


def _limit(details: Mapping[str, Any]) -> Any:
    return details.get("limit")


_TYPES: Mapping[str, Message] = {
    "string": message("This must be text."),
    "integer": message("Type a whole number here."),
    "number": message("Type a number here, with a point before decimals."),
    "boolean": message("Choose yes or no."),
    "array": message("This must be a list."),
    "object": message("This must be an object."),
}
_DESCRIPTIONS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "type": _describe_type,
    "enum": _describe_choices,
    "const": _describe_choices,
    "additionalProperties": _describe_unexpected,
    "unevaluatedProperties": _describe_unexpected,
    "minimum": lambda details: message("Write {minimum} or more.", minimum=_limit(details)),
    "maximum": lambda details: message("Write {maximum} or less.", maximum=_limit(details)),
    "exclusiveMinimum": lambda details: message("Write more than {limit}.", limit=_limit(details)),
    "exclusiveMaximum": lambda details: message("Write less than {limit}.", limit=_limit(details)),
    "multipleOf": lambda details: message("Write a multiple of {factor}.", factor=details.get("multiple_of")),
    "minLength": lambda details: plural_message(
        "Write at least {minimum} character.",
        "Write at least {minimum} characters.",
        count=_limit(details),
        minimum=_limit(details),
    ),
    "maxLength": lambda details: plural_message(
        "At most one character.", "At most {count} characters.", count=_limit(details)
    ),
    "minItems": lambda details: plural_message(
        "At least one entry is needed.", "At least {count} entries are needed.", count=_limit(details)
    ),
    "maxItems": lambda details: plural_message(
        "At most one entry fits.", "At most {count} entries fit.", count=_limit(details)
    ),
    "uniqueItems": lambda details: message("No two entries may be the same."),
    "pattern": lambda details: message(
        "This must match the pattern {pattern}.", pattern=quote(str(details.get("pattern")), 100)
    ),
    "format": lambda details: message(
        "This must have the format {format}.", format=quote(str(details.get("format")), 40)
    ),
}
