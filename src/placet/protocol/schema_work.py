"""Bound the work of validating a value against a JSON Schema, without doing that work.

References make a small schema large: a chain of `anyOf` with two references each doubles at every level. The
bound counts how often subschemas can be applied on one path through a value, references expanded. A reference
that is not found here is refused, because the validator may find it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

MAX_EXPANDED = 20_000
"""The maximum number of subschemas that apply on one path through a value, with references expanded."""
MAX_PATTERN_SIZE = 50_000
"""The maximum size of all patterns together, with repetitions expanded; the unit is ten characters.

At this size, compiling them takes about a quarter of a second.
"""
MAX_WORK = 3_000_000
MAX_WORK_WITH_ERRORS = 50_000
"""Above this, violations are found but not described, because a description costs far more."""

_MAX_STEPS = 100_000
_MAX_DEPTH = 200
_ANY_DEPTH = -1
_HERE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_HERE_BY_NAME = ("dependentSchemas", "dependencies")
_NAMES_BY_NAME = ("dependentRequired", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_OF_ANY_KEY = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_REPETITION = re.compile(r"\{\s*(\d[\d\s]{0,40})(?:,([\d\s]{0,40}))?\}")  # the engine ignores the spaces
_CLASS = re.compile(r"\\[pP]")
_UNITS_OF_CLASS = 60  # the compiled table of a class such as \p{L} is this large
_SHORT_CLASS = re.compile(r"\\[wWdDsS]")  # the validator replaces these one by one and reads the pattern anew
_IGNORED_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_BACKTRACKING = re.compile(r"\(\?[=!<]|\\[1-9k]")

_INDEX = re.compile(r"[0-9]{1,9}")

Cost = tuple[int, int]
"""Applied subschemas, and the size of their patterns."""


class TooMuchWork(ValueError):
    """Validation could take too long."""


class SchemaWork:
    """The bound for one schema. Raises TooMuchWork if the schema is too large for any value."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._anchors: dict[str, Any] = {}
        self._costs: dict[tuple[int, int], Cost | None] = {}
        self._steps = 0
        patterns = 0
        for node in _walk(schema):
            if node is not schema and (isinstance(node.get("$id"), str) or self._has_old_id(node)):
                raise TooMuchWork("it has subschemas with an $id of their own; use $defs")
            if node is not schema and isinstance(node.get("$schema"), str):
                raise TooMuchWork("it has subschemas with a $schema of their own")
            patterns += _measure_patterns(node)
            for anchor in {node[name] for name in _ANCHORS if isinstance(node.get(name), str)}:
                if anchor in self._anchors:
                    raise TooMuchWork(f"it has the anchor {anchor!r} twice")
                self._anchors[anchor] = node
        if patterns > MAX_PATTERN_SIZE:
            raise TooMuchWork("its patterns are too large")
        self.pattern_size = patterns
        self._compute_cost(schema, _ANY_DEPTH, 0)
        if _count_compiled(schema) > MAX_EXPANDED:
            raise TooMuchWork("it expands to too many subschemas")

    def compute_bound(self, value: Any) -> int:
        """Return the maximum work for this value. Raises TooMuchWork if it is above the limit."""
        depth, nodes, characters = _measure(value)
        applied, patterns = self._compute_cost(self._root, depth, 0)
        # Every violation copies its value, and lengths and formats read every character.
        work = (nodes + characters // 200) * applied + characters * patterns
        if applied > MAX_EXPANDED or work > MAX_WORK:
            raise TooMuchWork("it expands to too many subschemas")
        return work

    def _compute_cost(self, node: Any, depth: int, level: int) -> Cost:
        """Return the bound for one path of this depth; a reference back to its own start counts once."""
        if not isinstance(node, Mapping):
            return 1, 0
        key = id(node), depth
        if key in self._costs:
            return self._costs[key] or (1, 0)
        self._steps += 1
        if self._steps > _MAX_STEPS or level > _MAX_DEPTH:
            raise TooMuchWork("it expands to too many subschemas")
        self._costs[key] = None
        here = [self._compute_cost(one, depth, level + 1) for one in self._list_applied(node)]
        times = _count_uses(node)
        below = self._compute_cost_below(node, max(depth - 1, _ANY_DEPTH), level + 1) if depth else (0, 0)
        applied = (
            1 + _count_names(node) + _count_choices(node) + times * sum(one for one, _ in here) + below[0]
        )
        patterns = _measure_patterns(node) + times * sum(one for _, one in here) + below[1]
        if applied > MAX_EXPANDED:
            raise TooMuchWork("it expands to too many subschemas")
        self._costs[key] = applied, patterns
        return applied, patterns

    def _compute_cost_below(self, node: Mapping[str, Any], depth: int, level: int) -> Cost:
        """Return the bound for one child: every named property is a path, and the rest apply to each."""
        named = [self._compute_cost(one, depth, level) for one in _list_named_schemas(node.get("properties"))]
        one_named = max((cost[0] for cost in named), default=0), max((cost[1] for cost in named), default=0)
        every = _list_named_schemas(node.get("patternProperties"))
        every += [one for name in _OF_ANY_KEY for one in _list_schemas(node.get(name))]
        of_key = _add([one_named, *(self._compute_cost(one, depth, level) for one in every)])
        items = [one for name in _OF_ITEMS for one in _list_schemas(node.get(name))]
        items += _list_schemas(node.get("contains")) * (_count_contained(node) - 1)
        of_item = _add([self._compute_cost(one, depth, level) for one in items])
        return max(of_key[0], of_item[0]), max(of_key[1], of_item[1])

    def _list_applied(self, node: Mapping[str, Any]) -> Iterator[Any]:
        for name in _HERE:
            yield from _list_schemas(node.get(name))
        for name in _HERE_BY_NAME:
            yield from _list_named_schemas(node.get(name))
        for name in _REFERENCES:
            if isinstance(node.get(name), str):
                yield self._resolve(node[name])

    def _resolve(self, reference: str) -> Any:
        """Return the subschema that a reference names; raises TooMuchWork if it is not in this schema."""
        address, _, escaped = reference.partition("#")
        if address and address != str(self._root.get("$id")).partition("#")[0]:
            raise TooMuchWork("it refers to another document; put its part under $defs")
        fragment = unquote(escaped)
        found = self._follow(fragment) if fragment[:1] in ("", "/") else self._anchors.get(fragment)
        if not isinstance(found, Mapping | bool):
            raise TooMuchWork(f"its reference {reference[:100]!r} names no subschema")
        return found

    def _follow(self, pointer: str) -> Any:
        found: Any = self._root
        for escaped in pointer.split("/")[1:]:
            step = escaped.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(step)
            elif isinstance(found, list | tuple) and _INDEX.fullmatch(step) and int(step) < len(found):
                found = found[int(step)]
            else:
                return None
        return found

    def _has_old_id(self, node: Mapping[str, Any]) -> bool:
        return "draft-04" in str(self._root.get("$schema")) and isinstance(node.get("id"), str)


def _add(costs: Sequence[Cost]) -> Cost:
    return sum(one for one, _ in costs), sum(one for _, one in costs)


def _list_schemas(value: Any) -> list[Any]:
    """Return the subschemas under a keyword: one or a list."""
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, Mapping):
        return []
    return [value]


def _list_named_schemas(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else []


def _count_uses(node: Mapping[str, Any]) -> int:
    """Return how often a subschema for the same value is compiled and applied."""
    return 3 if node.keys() & {"unevaluatedProperties", "unevaluatedItems"} else 1


def _count_contained(node: Mapping[str, Any]) -> int:
    """Return how often the subschema under `contains` is compiled and applied."""
    return 1 + len(node.keys() & {"minContains", "maxContains", "unevaluatedItems"})


def _count_compiled(schema: Mapping[str, Any]) -> int:
    """Return how many subschemas the validator builds. References are built once."""
    total, waiting = 0, [(schema, 1)]
    while waiting and total <= MAX_EXPANDED:
        node, times = waiting.pop()
        total += times
        here = [one for name in _HERE for one in _list_schemas(node.get(name))]
        below = [one for name in (*_OF_ANY_KEY, *_OF_ITEMS) for one in _list_schemas(node.get(name))]
        for name in (*_HERE_BY_NAME, "properties", "patternProperties"):
            (here if name in _HERE_BY_NAME else below).extend(_list_named_schemas(node.get(name)))
        contained = _list_schemas(node.get("contains"))
        factors = (here, _count_uses(node)), (below, 1), (contained, _count_contained(node) - 1)
        waiting += [
            (one, times * uses) for group, uses in factors for one in group if isinstance(one, Mapping)
        ]
    return total


def _count_names(node: Mapping[str, Any]) -> int:
    """Return the work for lists of names, which are compared with every object."""
    lists = [node.get("required")]
    lists += [one for name in _NAMES_BY_NAME for one in _list_named_schemas(node.get(name))]
    return sum(len(one) for one in lists if isinstance(one, list | tuple))


def _count_choices(node: Mapping[str, Any]) -> int:
    """Return the work for the allowed values, which are compared with every value."""
    _, nodes, characters = _measure([node[name] for name in ("enum", "const") if name in node])
    return nodes // 10 + characters // 200


def _measure_patterns(node: Mapping[str, Any]) -> int:
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    named = node.get("patternProperties")
    return sum(map(_measure_pattern, [*patterns, *(named if isinstance(named, Mapping) else ())]))


def _measure_pattern(pattern: str) -> int:
    size = len(pattern) // 10 + 1 + _UNITS_OF_CLASS * len(_CLASS.findall(pattern))
    short = len(_SHORT_CLASS.findall(pattern))
    size += short * (short + len(pattern) // 10)
    if _IGNORED_CASE.search(pattern):
        size += _UNITS_OF_CLASS * pattern.count("[")
    for bounds in _REPETITION.findall(pattern):
        most = max(int("".join(bound.split()) or 0) for bound in bounds)
        size = min(size * max(most, 1), 10 * MAX_PATTERN_SIZE)
    return size + (1_000 if _BACKTRACKING.search(pattern) else 0)


def _walk(schema: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list | tuple):
            waiting.extend(node)


def _measure(value: Any) -> tuple[int, int, int]:
    """Return the depth of a value, its number of values, and its number of characters.

    Integers of more than 64 bits are compared each with each to find whether they are unique.
    """
    deepest = nodes = characters = large = 0
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        deepest, nodes = max(deepest, depth), nodes + 1
        if isinstance(one, str):
            characters += len(one)
        elif isinstance(one, int):
            large += one.bit_length() > 63
        elif isinstance(one, Mapping):
            characters += sum(len(str(name)) for name in one)
            waiting.extend((child, depth + 1) for child in one.values())
        elif isinstance(one, list | tuple):
            waiting.extend((child, depth + 1) for child in one)
    return deepest, nodes + 5 * large * large, characters
