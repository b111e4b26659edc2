"""The ledger and the tests hold each other to their word."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scripts.draw_ledger import PAGE, draw
from tests.spec.ledger import LEDGER, TITLES

ROOT = Path(__file__).parent.parent.parent
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


@cache
def functions_of(path: Path) -> dict[str, tuple[str, ...]]:
    """The tests of a file by their names within it, each with the ids its marks name."""
    found: dict[str, tuple[str, ...]] = {}
    for scope, node in _functions(ast.parse(path.read_text())):
        if node.name.startswith("test"):
            found["::".join((*scope, node.name))] = tuple(_marked_ids(node))
    return found


def _functions(
    tree: ast.AST, scope: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield scope, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*scope, node.name))


def _marked_ids(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.spec":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def marked() -> dict[str, set[str]]:
    """Which tests say that they show which requirement."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS:
        for name, ids in functions_of(path).items():
            for one in ids:
                found[one].add(f"{path.relative_to(ROOT)}::{name}")
    return found


def test_no_id_is_used_twice():
    assert [name for name, count in Counter(one.id for one in LEDGER).items() if count > 1] == []


def test_every_requirement_is_shown_or_accounted_for():
    assert [one.id for one in LEDGER if not (one.tests or one.not_ours or one.divergence)] == []
    assert [one.id for one in LEDGER if one.not_ours and (one.tests or one.divergence)] == []


def test_every_test_that_is_named_exists():
    missing = [(one.id, node_id) for one in LEDGER for node_id in one.tests if not exists(node_id)]
    assert missing == []


def exists(node_id: str) -> bool:
    path, _, name = node_id.partition("::")
    return (ROOT / path).is_file() and name in functions_of(ROOT / path)


def test_every_mark_names_a_requirement_that_names_the_test_in_turn():
    named = {requirement.id: set(requirement.tests) for requirement in LEDGER}
    unmatched = {
        requirement: sorted(tests - named.get(requirement, set()))
        for requirement, tests in marked().items()
        if tests - named.get(requirement, set())
    }
    assert unmatched == {}


def test_every_id_begins_with_its_section():
    wrong = [one.id for one in LEDGER if not one.id.startswith(one.section)]
    assert wrong == []


def test_every_section_of_the_specification_is_there():
    assert list(TITLES) == list(dict.fromkeys(one.section for one in LEDGER))


def test_texts_are_short_sentences_of_their_own():
    for one in LEDGER:
        assert one.text.endswith("."), one.id
        assert len(one.text) <= 160, one.id


def test_the_page_in_the_docs_is_drawn_from_this_ledger():
    assert (ROOT / PAGE).read_text() == draw(), "run `python -m scripts.draw_ledger`"
