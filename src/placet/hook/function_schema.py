"""Building a JSON Schema from a function's signature and docstring."""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_SIMPLE_SCHEMAS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    object: {},
}
_VARIADIC_HINTS: dict[Any, Callable[[Any], Any]] = {
    inspect.Parameter.VAR_POSITIONAL: lambda hint: types.GenericAlias(list, (hint,)),
    inspect.Parameter.VAR_KEYWORD: lambda hint: types.GenericAlias(dict, (str, hint)),
}
_SECTION = re.compile(r"^\s*(args|arguments|parameters|params)\s*:\s*$", re.IGNORECASE)
_PARAMETER = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")


def read_description(function: Callable[..., Any]) -> str:
    """Return the docstring up to its list of parameters."""
    lines: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def build_schema(
    function: Callable[..., Any], *, leave_out: Iterable[str] = (), by_name: bool = True
) -> dict[str, Any]:
    """Return the parameters as a JSON Schema. Raises ValueError for parameters without a name, as *args.

    Without `by_name` these are included: a list for *args, an object for **kwargs.
    """
    hints = _read_hints(function)
    notes = _read_parameter_notes(inspect.getdoc(function) or "")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in set(leave_out):
            continue
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if by_name and not named:
            raise ValueError(f"A model cannot pass {parameter}; {function.__name__} needs named parameters.")
        several = _VARIADIC_HINTS.get(parameter.kind)
        hint = hints.get(name, Any)
        properties[name] = _build_parameter_schema(
            several(hint) if several else hint, parameter, notes.get(name)
        )
        if parameter.default is parameter.empty and several is None:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the parameters; a type that cannot be resolved is left out."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:
        pass
    known: dict[str, Any] = {}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        one = types.SimpleNamespace(__annotations__={name: hint})
        with suppress(NameError):
            known |= get_type_hints(one, globalns=names, include_extras=True)
    return known


def _build_parameter_schema(hint: Any, parameter: inspect.Parameter, note: str | None) -> dict[str, Any]:
    schema = schema_from_hint(hint)
    if note and "description" not in schema:
        schema["description"] = note
    if parameter.default is not parameter.empty and isinstance(parameter.default, str | int | float | bool):
        schema["default"] = parameter.default
    return schema


def schema_from_hint(hint: Any) -> dict[str, Any]:
    """Return a type as a JSON Schema; a type without a JSON equivalent allows anything."""
    if hint in _SIMPLE_SCHEMAS:
        return dict(_SIMPLE_SCHEMAS[hint])
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _schema_from_annotated(parts)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_from_hint(part) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if is_typeddict(hint):
        return _schema_from_typed_dict(hint)
    return _collection_schema(origin or hint, parts)


def _schema_from_annotated(parts: Sequence[Any]) -> dict[str, Any]:
    schema = schema_from_hint(parts[0])
    for note in parts[1:]:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Mapping):
            schema |= note
    return schema


def _schema_from_typed_dict(hint: Any) -> dict[str, Any]:
    members = get_type_hints(hint, include_extras=True)
    return {
        "type": "object",
        "properties": {name: schema_from_hint(member) for name, member in members.items()},
        "required": sorted(hint.__required_keys__),
        "additionalProperties": False,
    }


def _collection_schema(origin: Any, parts: Sequence[Any]) -> dict[str, Any]:
    if not isinstance(origin, type):
        return {}
    if issubclass(origin, Mapping):
        return (
            {"type": "object", "additionalProperties": schema_from_hint(parts[1])}
            if parts
            else {"type": "object"}
        )
    if issubclass(origin, Iterable) and not issubclass(origin, str | bytes):
        items = {"items": schema_from_hint(parts[0])} if parts else {}
        return {"type": "array", **items}
    return {}


def _read_parameter_notes(text: str) -> dict[str, str]:
    lines = iter(text.splitlines())
    for line in lines:
        if _SECTION.match(line):
            break
    notes: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            break
        if match := _PARAMETER.match(line):
            notes[match[1]] = match[2].strip()
    return notes
