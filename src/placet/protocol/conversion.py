"""Convert JSON types to a struct, or raise an error that says what is wrong and where."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from placet.errors import BadRequest

T = TypeVar("T")

_PLACE = re.compile(r" - at `(?:key` in `)?\$(?P<path>[^`]*)`\Z")
_JSON_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
UNKNOWN = "`{name}` is not a known property"
MAX_TYPO_LENGTH = 60  # comparing longer names would take long
_COMPLAINTS = (
    (re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL), "`{name}` is missing"),
    (
        re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL),
        UNKNOWN,
    ),
    (re.compile(r"Expected `str` of length <= (?P<most>\d+)"), "at most {most} characters fit"),
    (re.compile(r"Expected `str` of length >= (?P<least>\d+)"), "at least {least} characters are needed"),
    (re.compile(r"Expected `str` matching regex .*", re.DOTALL), "this does not have the documented form"),
    (re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<given>[^`]*)`"), "expected {wanted}, got {given}"),
)
_NO_CHOICE = "Invalid enum value"
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_FORMS = re.compile(r"Expected `str` matching regex '\^\(\?:(?P<forms>.*)\)\$\(\?!\\+n\)'")
_FORM = re.compile(r"(?P<fixed>[a-z_-]+)(?P<open>\.\+|\[.*)?")


def anchor_pattern(expression: str) -> str:
    """Return a pattern that matches the whole text, in Python and in a JSON Schema."""
    return rf"^(?:{expression})$(?!\n)"  # Python's `$` alone allows a final newline


def convert_input(raw: object, shape: type[T], error: type[BadRequest], name: str) -> T:
    """Convert `raw` to `shape`, or raise `error` with the reason and its `path` under `name`."""
    try:
        return msgspec.convert(raw, shape)
    except msgspec.ValidationError as misfit:
        reason, path = describe_mismatch(misfit, shape)
    except (UnicodeError, RecursionError):
        reason, path = "contains characters or a nesting depth that JSON does not allow", ""
    raise error(f"{name}{path}: {reason}.", path=f"{name}{path}")


def holds_only_text(value: Mapping[Any, Any]) -> bool:
    """Return whether all keys and values are texts, as in most answers."""
    return {str}.issuperset(map(type, value)) and {str}.issuperset(map(type, value.values()))


def quote(text: str, limit: int = 60) -> str:
    """Return untrusted text for use in a message: short, on one line, printable ASCII."""
    plain = text[:limit].encode("ascii", "backslashreplace").decode("ascii")
    visible = "".join(character if character.isprintable() else "?" for character in plain)
    return visible if len(text) <= limit else visible + "..."


def describe_mismatch(misfit: msgspec.ValidationError, shape: Any) -> tuple[str, str]:
    """Return the reason, in words for the sender, and the path with a leading dot, which may be empty."""
    reason, path = _split_complaint(misfit)
    if reason.startswith(_NO_CHOICE) and (names := _list_choices(shape, path)):
        return f"use one of {', '.join(names)}", quote(path, 120)
    return _reword(reason) + _suggest_field(reason, shape, path), quote(path, 120)


def suggest_field(misfit: msgspec.ValidationError, shape: Any) -> str:
    """Return the known field that is nearest to an unknown one, as a question; empty if none is near."""
    reason, path = _split_complaint(misfit)
    return _suggest_field(reason, shape, path)


def _split_complaint(misfit: msgspec.ValidationError) -> tuple[str, str]:
    """Return the reason and the path in an error of msgspec."""
    text = str(misfit)
    place = _PLACE.search(text)
    return (text, "") if place is None else (text[: place.start()], place["path"])


def _suggest_field(reason: str, shape: Any, path: str) -> str:
    unknown = next((pattern.fullmatch(reason) for pattern, words in _COMPLAINTS if words is UNKNOWN), None)
    if unknown is None or len(unknown["name"]) > MAX_TYPO_LENGTH:
        return ""
    from difflib import get_close_matches  # only now: most messages fit

    known = [
        field.encode_name
        for one in _find_types(shape, path)
        if isinstance(one, inspect.StructType)
        for field in one.fields
    ]
    near = get_close_matches(unknown["name"], known, n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _list_choices(shape: Any, path: str) -> list[str]:
    """Return the allowed values at this path; empty if they are unknown."""
    values: list[object] = []
    for one in _find_types(shape, path):
        if isinstance(one, inspect.EnumType):
            values += [member.value for member in one.cls]
        elif isinstance(one, inspect.LiteralType):
            values += one.values
    return [str(value) for value in values]


def _find_types(shape: Any, path: str) -> list[inspect.Type]:
    """Return the types that a value at this path may have."""
    found = _expand_union(inspect.type_info(shape))
    for name, _ in _STEP.findall(path):
        found = [
            one for outer in found for inner in _find_inner_types(outer, name) for one in _expand_union(inner)
        ]
    return found


def _expand_union(one: inspect.Type) -> list[inspect.Type]:
    if isinstance(one, inspect.Metadata):
        return _expand_union(one.type)
    if isinstance(one, inspect.UnionType):
        return [inner for each in one.types for inner in _expand_union(each)]
    return [one]


def _find_inner_types(outer: inspect.Type, name: str) -> list[inspect.Type]:
    if isinstance(outer, inspect.StructType):
        return [field.type for field in outer.fields if field.encode_name == name]
    if isinstance(outer, inspect.CollectionType):
        return [outer.item_type]
    return [outer.value_type] if isinstance(outer, inspect.DictType) else []


def _reword(reason: str) -> str:
    if match := _FORMS.fullmatch(reason):
        return _describe_expected_form(match["forms"].split("|"))
    for pattern, words in _COMPLAINTS:
        if match := pattern.fullmatch(reason):
            return words.format(
                **{key: quote(_reword_for_json(text)) for key, text in match.groupdict().items()}
            )
    return quote(reason, 120)


def _describe_expected_form(forms: list[str]) -> str:
    """Return the alternatives of a pattern as a list, or a general text for a complex pattern."""
    known = [_FORM.fullmatch(form) for form in forms]
    if not all(known):
        return "this does not have the documented form"
    names = [match["fixed"] + ("…" if match["open"] else "") for match in known if match]
    return f"use one of {', '.join(names)}" if len(names) > 1 else f"use {names[0]}"


def _reword_for_json(types: str) -> str:
    plain = types.removesuffix(" | null").replace("int | float", "float")
    names = [_JSON_WORDS.get(name, name) for name in plain.split(" | ")]
    return " or ".join(names)
