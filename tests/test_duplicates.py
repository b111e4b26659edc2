"""No code is written twice: two places of the source never share six consecutive lines."""

import ast
import re
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src"
MAX_SHARED_LINES = 5
WORD = re.compile(r"\w")


class CodeLine(NamedTuple):
    """A line of code, with single spaces, and its number in the file."""

    number: int
    text: str


class Position(NamedTuple):
    """A line of a file, by its offset among the lines that count."""

    path: str
    offset: int


def read_code_lines(source: str) -> list[CodeLine]:
    """Return the lines that count: no blank lines, comments, docstrings, or lines of punctuation.

    The line that starts an import does not count. The names of an import over several lines do: a long list
    of the same names in two modules is a missing module.
    """
    passed_over = {number for node in ast.walk(ast.parse(source)) for number in find_passed_over_lines(node)}
    lines = ((number, " ".join(line.split())) for number, line in enumerate(source.splitlines(), 1))
    return [
        CodeLine(number, text)
        for number, text in lines
        if WORD.search(text) and not text.startswith("#") and number not in passed_over
    ]


def find_passed_over_lines(node: ast.AST) -> range:
    """Return the numbers of the lines of this node that do not count."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return range(node.lineno, node.lineno + 1)
        case ast.Expr(value=ast.Constant(value=str())):
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def find_duplicates(files: dict[str, list[CodeLine]]) -> list[str]:
    """Return every pair of places that share too many lines, each with the first and last line."""
    size = MAX_SHARED_LINES + 1
    positions = defaultdict(list)
    for path, lines in files.items():
        for index in range(len(lines) - size + 1):
            positions[tuple(line.text for line in lines[index : index + size])].append(Position(path, index))
    pairs = {pair for same in positions.values() for pair in combinations(same, 2)}
    found = []
    for first, second in sorted(pairs):
        if (previous_position(first), previous_position(second)) in pairs:
            continue  # a part of a longer run
        length = size
        while (
            advance_position(first, length - size + 1),
            advance_position(second, length - size + 1),
        ) in pairs:
            length += 1
        both = " and ".join(name_lines(files, position, length) for position in (first, second))
        found.append(f"{both} share {length} lines")
    return found


def previous_position(position: Position) -> Position:
    return Position(position.path, position.offset - 1)


def advance_position(position: Position, count: int) -> Position:
    return Position(position.path, position.offset + count)


def name_lines(files: dict[str, list[CodeLine]], position: Position, length: int) -> str:
    lines = files[position.path]
    return f"{position.path}:{lines[position.offset].number}-{lines[position.offset + length - 1].number}"


def test_no_two_places_share_six_lines_of_code() -> None:
    files = {
        str(path.relative_to(SOURCE)): read_code_lines(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    found = find_duplicates(files)
    assert found == [], "\n".join(["Merge what is one idea:", *found])


def test_a_run_of_shared_lines_is_reported_once_with_both_places() -> None:
    shared = [f"line_{number} = {number}" for number in range(8)]
    first = read_code_lines("\n".join(["import os", "", *shared, "end = 1"]))
    second = read_code_lines("\n".join(["start = 1", "# why", *shared[:4], "", *shared[4:]]))
    assert find_duplicates({"a.py": first, "b.py": second}) == ["a.py:3-10 and b.py:3-11 share 8 lines"]


def test_docstrings_comments_and_punctuation_do_not_count() -> None:
    source = '"""Doc\nstring."""\nimport d\n# comment\n\nx = (\n    1\n)\n"""Of x."""\nfrom e import f\n'
    assert [line.text for line in read_code_lines(source)] == ["x = (", "1"]


def test_names_of_a_long_import_count() -> None:
    source = "from a import (\n    b,\n    c,\n)\n"
    assert [line.text for line in read_code_lines(source)] == ["b,", "c,"]
