"""A hostile JSON Schema is refused before it is evaluated; an ordinary one is not."""

from typing import Any

import pytest

from placet.protocol.json_schema import UnusableSchema, compile_schema, find_violations


def build_bomb(levels: int, **more: Any) -> dict[str, Any]:
    """Return a schema that doubles at every level."""
    steps: dict[str, Any] = {
        f"l{one}": {"anyOf": [{"$ref": f"#/$defs/l{one + 1}"}] * 2, **more} for one in range(levels)
    }
    return {
        "$defs": {**steps, f"l{levels}": {"type": "string"}},
        "properties": {"x": {"$ref": "#/$defs/l0"}},
    }


def anchored_bomb(levels: int) -> dict[str, Any]:
    """Return a schema that doubles at every level, by anchors."""
    steps = [{"$anchor": f"l{one}", "anyOf": [{"$ref": f"#l{one + 1}"}] * 2} for one in range(levels)]
    last = {"$anchor": f"l{levels}", "type": "string"}
    return {"$defs": {str(one): step for one, step in enumerate([*steps, last])}, "$ref": "#l0"}


RECURSIVE = {
    "$ref": "#/$defs/e",
    "$defs": {"e": {"anyOf": [{"properties": {"c": {"$ref": "#/$defs/e"}}, "required": ["z"]}] * 2}},
}


def nest(levels: int) -> Any:
    """Return an object that is nested this deep."""
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"c": nested}
    return nested


@pytest.mark.parametrize("levels", [14, 18, 40])
def test_schema_bomb_is_refused(levels: int) -> None:
    with pytest.raises(UnusableSchema, match="expands to too many"):
        find_violations(build_bomb(levels), {"x": 1})


@pytest.mark.parametrize(
    "schema",
    [
        build_bomb(14),
        anchored_bomb(40),
        build_bomb(12, unevaluatedProperties=False) | {"$ref": "#/$defs/l0"},
        {"$ref": "#/$defs/l0", **{name: part for name, part in build_bomb(40).items() if name == "$defs"}},
        {"pattern": "(a{1000}){1000}"},
        {"allOf": [{"pattern": f"(.{{0,{900 + one}}}x){{100}}$"} for one in range(50)]},
        {"$defs": {"a": {"$id": "http://example.com/a"}}, "$ref": "a"},
        {"$defs": {f"l{one}": {"$ref": f"#/$defs/l{one + 1}"} for one in range(5_000)}, "$ref": "#/$defs/l0"},
    ],
    ids=["properties", "anchors", "unevaluated", "root", "repetition", "patterns", "ids", "chain"],
)
def test_costly_schema_is_refused_when_it_is_compiled(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema):
        compile_schema(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (RECURSIVE, nest(30)),
        ({"pattern": "(a{1000}){10}$"}, "a" * 200_000),
        ({"pattern": "(?=(a+)+b)(a+)+c"}, "a" * 200_000),
    ],
    ids=["recursion", "repetition", "look-ahead"],
)
def test_value_that_makes_a_schema_costly_is_refused(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(UnusableSchema):
        find_violations(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (RECURSIVE, nest(4)),
        ({"properties": {"text": {"type": "string", "pattern": "^[^<>]*$"}}}, {"text": 5}),
        ({"items": {"type": "integer"}}, [*range(100_000), "x"]),
        (build_bomb(6), {"x": 1}),
        ({"$ref": "#"}, None),
    ],
)
def test_ordinary_schema_is_checked(schema: dict[str, Any], value: Any) -> None:
    compile_schema(schema)
    assert bool(find_violations(schema, value)) is (value is not None)
