"""The tree of errors in the docstring equals the class tree."""

import re

import msgspec
import pytest

from placet import errors
from placet.errors import PlacetError

LINE = re.compile(r"(?P<indent>[ │├└─]*)(?P<name>[A-Z]\w+)(?:\s+(?P<status>[0-9]{3})\s+(?P<code>\w+))?")


def all_errors(root: type[PlacetError] = PlacetError) -> list[type[PlacetError]]:
    own = [child for child in root.__subclasses__() if child.__module__ == errors.__name__]
    return [root, *(found for child in own for found in all_errors(child))]


def read_error_tree() -> list[tuple[int, str, str | None, str | None]]:
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    lines = [LINE.match(line) for line in tree.splitlines()]
    return [
        (len(line["indent"]) // 4, line["name"], line["status"], line["code"])
        for line in lines
        if line is not None
    ]


def test_the_tree_names_every_error_and_no_other() -> None:
    assert sorted(name for _, name, _, _ in read_error_tree()) == sorted(
        error.__name__ for error in all_errors()
    )


def test_each_error_has_the_parent_that_the_tree_shows() -> None:
    branch: list[str] = []
    for depth, name, _, _ in read_error_tree():
        branch = [*branch[:depth], name]
        parent = getattr(errors, name).__bases__[0].__name__
        assert depth == 0 or parent == branch[depth - 1], name


def test_each_error_has_the_status_and_code_the_tree_shows() -> None:
    for _, name, status, code in read_error_tree():
        error = getattr(errors, name)
        assert status in (None, str(error.status)), name
        assert code in (None, error.code), name


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.__name__)
def test_error_is_serialised_as_a_flat_object_with_a_message(error: type[PlacetError]) -> None:
    body = error(case_id="review_1").body()
    assert list(body) == ["error", "message", "case_id"]
    assert body["message"].endswith(".")
    assert msgspec.json.decode(msgspec.json.encode(body)) == body
