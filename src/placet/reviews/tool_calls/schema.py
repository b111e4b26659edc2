"""Read from a tool's JSON Schema what a form needs to know about an argument. Validates nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

MAX_SUBSCHEMAS = 200
MAX_REFERENCE_STEPS = 32
_COMBINATORS = ("allOf", "anyOf", "oneOf")
_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number"}


class Subschema:
    """The parts of a schema that apply to one value: direct, by reference, and in its alternatives.

    Values that the same schemas apply to share one object: there may be thousands of them.
    """

    def __init__(self, schemas: Iterable[Any], root: Mapping[str, Any], known: "Known | None" = None) -> None:
        self._root = root
        self._known: Known = {} if known is None else known
        self.words = list(_collect_schemas(schemas, root))

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that it names, or else the types of its enum values."""
        named = [kind for word in self.words for kind in _as_list(word.get("type"))]
        values = [_get_type_name(value) for value in self.choices or ()]
        return frozenset(kind for kind in named or values if isinstance(kind, str))

    @cached_property
    def choices(self) -> list[Any] | None:
        """The allowed values, if all alternatives list them; an alternative of null is ignored."""
        leaves = [word for word in self.words if not word.keys() & {"$ref", *_COMBINATORS}]
        lists = [_list_choices(word) for word in leaves if word.get("type") != "null"]
        if not lists or any(values is None for values in lists):
            return None
        return [value for values in lists for value in values or ()]

    @cached_property
    def secret(self) -> bool:
        """Whether it marks a secret: `writeOnly` or the format `password`."""
        return any(word.get("writeOnly") is True or word.get("format") == "password" for word in self.words)

    @cached_property
    def description(self) -> str:
        """The first description, or an empty string."""
        described = (word.get("description") for word in self.words)
        return next((text for text in described if isinstance(text, str) and text.strip()), "")

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of the required properties."""
        return frozenset(
            name for word in self.words for name in _as_list(word.get("required")) if isinstance(name, str)
        )

    @cached_property
    def properties(self) -> list[str]:
        """The names of the properties, in order."""
        return list(
            dict.fromkeys(name for word in self.words for name in _read_object(word.get("properties")))
        )

    def for_property(self, name: str) -> "Subschema":
        """Return the subschema of one property."""
        named = [
            _read_object(word["properties"])[name]
            for word in self.words
            if name in _read_object(word.get("properties"))
        ]
        return self._share(named) if named else self._others

    @cached_property
    def items(self) -> "Subschema":
        """The subschema of the entries of a list."""
        every = [word.get("items") for word in self.words]
        first = [one for word in self.words for one in _as_list(word.get("prefixItems"))]
        return self._share([*every, *first])

    @cached_property
    def _others(self) -> "Subschema":
        """The subschema of the properties that it does not name."""
        patterned = [
            one for word in self.words for one in _read_object(word.get("patternProperties")).values()
        ]
        return self._share([*patterned, *(word.get("additionalProperties") for word in self.words)])

    def _share(self, schemas: Iterable[Any]) -> "Subschema":
        first = list(islice(_find_objects(schemas), MAX_SUBSCHEMAS))
        key = tuple(map(id, first))
        if key not in self._known:
            self._known[key] = Subschema(first, self._root, self._known)
        return self._known[key]


Known = dict[tuple[int, ...], Subschema]
"""The subschemas of one root, by the ids of their schemas."""


def read_subschema(schema: Mapping[str, Any] | None) -> Subschema:
    """Return the subschema of a tool's arguments; empty if there is no schema."""
    return Subschema([schema], schema or {})


def _collect_schemas(schemas: Iterable[Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting, seen = list(islice(_find_objects(schemas), MAX_SUBSCHEMAS)), set[int]()
    while waiting and len(seen) < MAX_SUBSCHEMAS:
        word = waiting.pop(0)
        if id(word) in seen:
            continue
        seen.add(id(word))
        yield word
        combined = (one for name in _COMBINATORS for one in _as_list(word.get(name)))
        referred = _resolve_reference(word.get("$ref"), root)
        more = _find_objects(chain([referred], combined, [word.get("then"), word.get("else")]))
        waiting.extend(islice(more, MAX_SUBSCHEMAS))


def _find_objects(schemas: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    return (one for one in schemas if isinstance(one, Mapping))


def _resolve_reference(reference: object, root: Mapping[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference.removeprefix("#").split("/", MAX_REFERENCE_STEPS)[1:]:
        found = _read_object(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _list_choices(word: Mapping[str, Any]) -> Sequence[Any] | None:
    if "const" in word:
        return [word["const"]]
    listed = word.get("enum")
    return listed if isinstance(listed, list | tuple) else None


def _get_type_name(value: object) -> str:
    return "null" if value is None else _SCALARS.get(type(value), "other")


def _as_list(value: object) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    return () if value is None else (value,)


def _read_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
