"""The form for editing the arguments of a call, built from the tool's schema and the arguments.

A field that is left unchanged keeps exactly the value that the agent sent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.reviews.page_form import is_editable_text, is_form_name, may_be_thousands
from placet.reviews.tool_calls.schema import Subschema, read_subschema
from placet.reviews.tool_calls.secrets import holds_secret
from placet.text.characters import normalize_newlines
from placet.text.wording import Message, message

MAX_FIELDS = 40
MAX_CHOICES = 100
MAX_ARGUMENT_BYTES = 100_000
LONG_TEXT = 80
ABSENT: Any = msgspec.UNSET

Control = Literal["line", "lines", "number", "choice", "list", "json", "secret", "kept"]
FieldPath = tuple[str, ...]

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?", re.ASCII)

NO_NUMBER = message("Type a number here, with a point before decimals.")
NO_WHOLE_NUMBER = message("Type a whole number here.")
NOT_OFFERED = message("Choose one of the options offered here.")
NO_NAMES = message("This must be an object: names and their values, in braces.")


class UnreadableValue(ValueError):
    """The typed text is not a valid value; the message says what to type instead."""

    def __init__(self, words: Message) -> None:
        super().__init__(words)
        self.words = words


class ArgumentField(Struct, frozen=True, kw_only=True):
    """One field of the form: for an argument, for a member of one, or for all arguments as JSON."""

    path: FieldPath
    control: Control
    value: Any = ABSENT
    whole: bool = False
    """Whether only whole numbers are allowed."""
    required: bool = False
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    entries: str = "string"
    hint: str = ""

    @property
    def name(self) -> str:
        """The name in the form: a JSON pointer without its first slash."""
        return "/".join(step.replace("~", "~0").replace("/", "~1") for step in self.path)

    @property
    def original(self) -> str:
        """The text in the field before it is edited."""
        if self.value is ABSENT or self.control in ("secret", "kept"):
            return ""
        if self.control in ("json", "choice"):
            return _format_json(self.value, indent=None if self.control == "choice" else 2)
        if self.value is None:
            return ""
        if self.control == "list":
            return "\n".join(normalize_newlines(_format_plain(entry)) for entry in self.value)
        return normalize_newlines(_format_plain(self.value))

    @property
    def blank(self) -> bool:
        """Whether the field may be left empty."""
        return self.value is ABSENT or self.nullable or not self.required

    def read(self, typed: str, grouping: str | None = None) -> Any:
        """Return the typed text as a value, or ABSENT to omit the argument; raise UnreadableValue."""
        if typed == self.original or self.control == "kept":
            return self.value
        if self._counts and any(may_be_thousands(line, grouping) for line in self._find_new_lines(typed)):
            raise UnreadableValue(NO_WHOLE_NUMBER if self.whole else NO_NUMBER)
        return _READERS[self.control](self, typed)

    @property
    def _counts(self) -> bool:
        return self.control == "number" or (self.control == "list" and self.entries != "string")

    def _find_new_lines(self, typed: str) -> list[str]:
        before = self.original.split("\n")
        return [line for line in typed.split("\n") if line.strip() not in before]


class ArgumentForm(Struct, frozen=True, kw_only=True):
    """All form fields of one call."""

    arguments: dict[str, Any]
    fields: tuple[ArgumentField, ...] = ()

    def apply_edits(
        self, typed: Mapping[str, str], grouping: str | None = None
    ) -> tuple[dict[str, Any], dict[str, Message]]:
        """Return the edited arguments, and a message for each field that is not valid, by field name."""
        edited = {**self.arguments}
        wrong: dict[str, Message] = {}
        for field in self.fields:
            try:
                value = field.read(typed[field.name], grouping) if field.name in typed else field.value
            except UnreadableValue as misread:
                wrong[field.name] = misread.words
                continue
            edited = _set_value(edited, field, value)
        return edited, wrong


def build_form(
    schema: Mapping[str, Any] | None, arguments: dict[str, Any], most: int = MAX_FIELDS
) -> ArgumentForm | None:
    """Return the form for a call: one JSON field if it needs more than `most`, None if it is too large."""
    if len(msgspec.json.encode(arguments)) > MAX_ARGUMENT_BYTES:
        return None
    subschema = read_subschema(schema)
    fields: list[ArgumentField] = []
    for field in _build_fields((), arguments, subschema):
        if len(fields) == most or not all(is_form_name(step) for step in field.path):
            return ArgumentForm(arguments=arguments, fields=tuple(_build_json_field(arguments, subschema)))
        fields.append(field)
    return ArgumentForm(arguments=arguments, fields=tuple(fields))


def _build_json_field(arguments: dict[str, Any], subschema: Subschema) -> Iterator[ArgumentField]:
    """Yield one field for all arguments except secrets, which cannot be edited."""
    open_ones = {
        name: value
        for name, value in arguments.items()
        if not holds_secret(value, subschema.for_property(name))
    }
    yield ArgumentField(path=(), control="json", value=open_ones, required=True)


def _build_fields(
    path: FieldPath, values: Mapping[str, Any], subschema: Subschema
) -> Iterator[ArgumentField]:
    for name in dict.fromkeys([*values, *subschema.properties]):
        value, inner = values.get(name, ABSENT), subschema.for_property(name)
        place, required = (*path, name), name in subschema.required
        nested = value if isinstance(value, Mapping) else {} if value is ABSENT else None
        opens = not path and nested is not None and inner.types <= {"object"} and not inner.secret
        if opens and (nested or inner.properties):
            yield from _build_fields(place, nested or {}, inner)
        else:
            yield _build_field(place, value, inner, required)


def _build_field(path: FieldPath, value: Any, subschema: Subschema, required: bool) -> ArgumentField:
    types = subschema.types or _list_types(value)
    listed = subschema.choices
    control = _choose_control(value, subschema, types - {"null"}, listed)
    choices = _list_choices(listed or [True, False], value) if control == "choice" else ()
    entries = subschema.items.types - {"null"} or _list_types(value[0] if value and control == "list" else "")
    return ArgumentField(
        path=path,
        control=control,
        value=value,
        whole="integer" in subschema.types and "number" not in subschema.types,
        required=required,
        nullable="null" in types,
        choices=choices,
        entries=next(iter(entries), "string") if len(entries) == 1 else "number",
        hint=subschema.description,
    )


def _choose_control(
    value: Any, subschema: Subschema, types: frozenset[str], listed: list[Any] | None
) -> Control:
    if subschema.secret:
        return "secret" if types <= {"string"} else "kept"
    if holds_secret(value, subschema):
        return "kept"
    if listed is not None:
        return "choice" if _can_be_listed(listed, value) else "json"
    if types == {"array"}:
        return "list" if _fits_lines(value, subschema) else "json"
    if value is not ABSENT and value is not None and not _list_types(value) <= types | {"number"}:
        return "json"
    return _choose_scalar_control(value, types)


def _choose_scalar_control(value: Any, types: frozenset[str]) -> Control:
    if types == {"boolean"} and isinstance(value, bool | msgspec.UnsetType | None):
        return "choice"
    if types and types <= {"integer", "number"} and not isinstance(value, str | bool | list | dict):
        return "number"
    if types == {"string"}:
        text = value if isinstance(value, str) else ""
        if not isinstance(value, str | msgspec.UnsetType | None) or not is_editable_text(text):
            return "json"
        return "lines" if "\n" in normalize_newlines(text) or len(text) > LONG_TEXT else "line"
    return "json"


def _can_be_listed(listed: list[Any], value: Any) -> bool:
    scalars = all(isinstance(one, str | int | float | None) for one in [*listed, value] if one is not ABSENT)
    return scalars and 0 < len(listed) <= MAX_CHOICES


def _list_choices(listed: list[Any], value: Any) -> tuple[Any, ...]:
    every = (
        [value, *listed]
        if value is not ABSENT and _format_json(value) not in map(_format_json, listed)
        else listed
    )
    return tuple({_format_json(one): one for one in every}.values())


def _fits_lines(value: Any, subschema: Subschema) -> bool:
    """Whether a list can be written as one entry per line and read back unchanged."""
    kinds = subschema.items.types
    if value is ABSENT or value is None or value == []:
        return len(kinds) == 1 and kinds <= {"string", "integer", "number"}
    if not isinstance(value, list) or len(kinds or {""}) > 1:
        return False
    found = {kind for entry in value for kind in _list_types(entry)}
    numbers = found <= {"integer", "number"} and kinds <= {"integer", "number"}
    texts = found == {"string"} and kinds <= {"string"}
    return numbers or (texts and all(_is_a_line(entry) for entry in value))


def _is_a_line(text: str) -> bool:
    return (
        bool(text.strip())
        and text == text.strip()
        and "\n" not in normalize_newlines(text)
        and is_editable_text(text)
    )


def _list_types(value: Any) -> frozenset[str]:
    if value is ABSENT or value is None:
        return frozenset()
    if isinstance(value, bool):
        return frozenset({"boolean"})
    named = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return frozenset({named.get(type(value), "other")})


# Writing and reading


def _format_plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _format_json(value: Any, indent: int | None = None) -> str:
    """Return readable JSON, with invisible characters escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if is_editable_text(text) else json.dumps(value, indent=indent)


def _read_text(field: ArgumentField, typed: str) -> Any:
    return typed


def _read_number(field: ArgumentField, typed: str) -> Any:
    return _read_empty(field, NO_NUMBER) if not typed.strip() else _parse_number(typed, field.whole)


def _parse_number(typed: str, whole: bool) -> int | float:
    text = typed.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if whole:
        raise UnreadableValue(NO_WHOLE_NUMBER)
    if not _DECIMAL.fullmatch(text):
        raise UnreadableValue(NO_NUMBER)
    return float(text)


def _read_choice(field: ArgumentField, typed: str) -> Any:
    if not typed:
        return _read_empty(field, NOT_OFFERED)
    for choice in field.choices:
        if _format_json(choice) == typed:
            return choice
    raise UnreadableValue(NOT_OFFERED)


def _read_list(field: ArgumentField, typed: str) -> Any:
    lines = [line.strip() for line in typed.split("\n") if line.strip()]
    if not lines and not isinstance(field.value, list):
        return field.value
    return (
        lines
        if field.entries == "string"
        else [_parse_number(line, field.entries == "integer") for line in lines]
    )


def _read_json(field: ArgumentField, typed: str) -> Any:
    if not typed.strip():
        return _read_empty(field, NO_NAMES if not field.path else message("Write JSON here."))
    try:
        value = json.loads(typed, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        words = message(
            "This cannot be read as JSON; look at line {line}, character {place}.",
            line=error.lineno,
            place=error.colno,
        )
        raise UnreadableValue(words) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableValue(message("This cannot be read as JSON.")) from error
    if not field.path and not isinstance(value, dict):
        raise UnreadableValue(NO_NAMES)
    return value


def _refuse(word: str) -> None:
    raise ValueError(word)


def _read_empty(field: ArgumentField, needed: Message) -> Any:
    if field.nullable:
        return None
    if not field.blank:
        raise UnreadableValue(needed)
    return ABSENT


_READERS = {
    "line": _read_text,
    "lines": _read_text,
    "secret": _read_text,
    "number": _read_number,
    "choice": _read_choice,
    "list": _read_list,
    "json": _read_json,
}


def _set_value(arguments: dict[str, Any], field: ArgumentField, value: Any) -> dict[str, Any]:
    """Return the arguments with this value set; unchanged parts stay the same objects."""
    if value is field.value:
        return arguments
    if not field.path:
        kept = {name: part for name, part in arguments.items() if name not in field.value}
        return {**kept, **value}
    first, *rest = field.path
    if rest:
        inner = arguments.get(first)
        known = inner if isinstance(inner, dict) else {}
        value = _set_member(known, rest[0], value)
    return _set_member(arguments, first, value)


def _set_member(values: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if value is ABSENT:
        return {key: part for key, part in values.items() if key != name}
    return {**values, name: value}
