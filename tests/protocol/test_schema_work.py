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


BOMB = build_bomb(22)["$defs"]
DECOYS = [{"$anchor": f"l{level}"} for level in range(22)]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def nest_contains(levels: int) -> dict[str, Any]:
    """Return a schema that the validator builds twice at every level."""
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"contains": nested, "minContains": 0}
    return nested


def indexed_bomb(levels: int, sign: str) -> dict[str, Any]:
    """Return a schema that doubles at every level, by places in a list."""
    steps = [{"anyOf": [{"$ref": f"#/x/{sign}{one + 1}"}] * 2} for one in range(levels)]
    return {"x": [*steps, {"type": "string"}], "$ref": f"#/x/{sign}0"}


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
    "schema",
    [
        {"$a": DECOYS, "$schema": DIALECT, **anchored_bomb(22)},
        {"$schema": DIALECT, **anchored_bomb(22), "const": DECOYS},
        indexed_bomb(22, "+"),
        indexed_bomb(22, "٠"),
        {"$id": "http://a.example/s", "$defs": BOMB, "$ref": "s#/$defs/l0"},
    ],
    ids=["anchors elsewhere", "anchors in a value", "index with a sign", "other digits", "relative address"],
)
def test_bomb_whose_references_lead_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema, match=r"anchor|reference|another document|expands"):
        compile_schema(schema)


def test_meta_schema_that_leads_back_to_the_schema_is_refused() -> None:
    schema = {"$schema": DIALECT, "$dynamicAnchor": "meta", "anyOf": [{"$ref": DIALECT}] * 2}
    with pytest.raises(UnusableSchema, match="another document"):
        compile_schema(schema)


def test_schema_that_doubles_while_it_is_built_is_refused() -> None:
    compile_schema({"$schema": DIALECT, **nest_contains(8)})
    with pytest.raises(UnusableSchema, match="expands to too many"):
        compile_schema({"$schema": DIALECT, **nest_contains(24)})


@pytest.mark.parametrize("short", [r"\w", r"\d", r"\s", r"\W", r"\D", r"\S"])
def test_pattern_of_many_short_classes_is_refused(short: str) -> None:
    compile_schema({"pattern": short * 50})
    with pytest.raises(UnusableSchema, match="patterns are too large"):
        compile_schema({"pattern": short * 4_000})
    with pytest.raises(UnusableSchema, match="patterns are too large"):
        compile_schema({"properties": {str(one): {"pattern": short * 20} for one in range(600)}})


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ({"enum": [f"x{one}" for one in range(20_000)]}, ["y"] * 5_000),
        ({"const": ["x"] * 20_000}, [["x"] * 10_000] * 100),
    ],
    ids=["enum", "const"],
)
def test_many_values_compared_with_many_choices_are_refused(keyword: dict[str, Any], value: Any) -> None:
    with pytest.raises(UnusableSchema):
        find_violations({"items": keyword}, value)


@pytest.mark.parametrize("keyword", ["dependencies", "dependentRequired"])
def test_violations_of_many_required_names_are_not_described(keyword: str) -> None:
    names = [f"r{one}" for one in range(100)]
    schema = {keyword: {name: [f"x{one}" for one in range(100)] for name in names}}
    if keyword == "dependencies":
        schema["$schema"] = "http://json-schema.org/draft-07/schema#"  # type: ignore[assignment]
    assert find_violations(schema, dict.fromkeys(names)) == ["the value does not match the schema"]


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
