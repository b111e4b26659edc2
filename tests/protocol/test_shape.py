import re
from enum import Enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from placet.errors import ValidationFailed
from placet.protocol.conversion import anchor_pattern, convert_input, quote


class Point(Struct, forbid_unknown_fields=True):
    x: int
    label: str | None = None


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(Struct):
    points: list[Point]
    ends: Literal["round", "flat"] | None = None
    colours: dict[str, Annotated[Colour, Meta(description="One of two.")]] = {}


@pytest.mark.parametrize(
    ("raw", "message", "path"),
    [
        ({"points": [{"x": "1"}]}, "line.points[0].x: expected integer, got string.", "line.points[0].x"),
        ({"points": [{"x": 1, "label": 2}]}, "line.points[0].label: expected string, got integer.", None),
        ({"points": [{}]}, "line.points[0]: `x` is missing.", "line.points[0]"),
        ({"points": [{"x": 1, "y": 2}]}, "line.points[0]: `y` is not a known property.", None),
        ({"points": [], "ends": "torn"}, "line.ends: use one of flat, round.", "line.ends"),
        ({"points": [], "colours": {"a": "pink"}}, "line.colours[...]: use one of red, blue.", None),
        (7, "line: expected object, got integer.", "line"),
    ],
)
def test_a_misfit_is_named_with_its_place(raw, message, path):
    with pytest.raises(ValidationFailed) as refusal:
        convert_input(raw, Line, ValidationFailed, "line")
    assert refusal.value.message == message
    assert path in (None, refusal.value.details["path"])


@pytest.mark.parametrize(
    "name",
    [pytest.param("y" * 100_000, id="long"), "\ud800", "`$` - at `x`", "a\nb", "\u202e", "{name}", "é"],
)
def test_a_hostile_property_name_never_breaks_the_answer(name):
    with pytest.raises(ValidationFailed) as refusal:
        convert_input({"x": 1, name: 2}, Point, ValidationFailed, "point")
    assert len(msgspec.json.encode(refusal.value.body())) < 600


def test_what_fits_is_returned():
    assert convert_input({"x": 1}, Point, ValidationFailed, "point") == Point(x=1)


def test_quoted_text_is_short_and_printable():
    assert quote("plain") == "plain"
    assert quote("é\n\ud800") == "\\xe9?\\ud800"
    assert quote("a" * 100) == "a" * 60 + "..."


@pytest.mark.parametrize("text", ["\nab", "ab\n", "xab", "abx", "abcd\n", ""])
def test_a_whole_pattern_fits_no_more_and_no_less(text):
    assert re.search(anchor_pattern("ab|cd"), "ab")
    assert re.search(anchor_pattern("ab|cd"), "cd")
    assert not re.search(anchor_pattern("ab|cd"), text)
