"""The page on security names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "why" / "security.md"
ROW = re.compile(r"^\| .* \| `(?P<path>tests/[\w/]+\.py)(?:::(?P<name>\w+))?` \|$", re.MULTILINE)


def find_functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_attack_on_the_security_page_has_a_test() -> None:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## Attacks and their tests")[2].partition("\n## ")[0]
    )
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        named = ROW.fullmatch(row)
        assert named, row
        functions = find_functions(ROOT / named["path"])
        assert functions, row
        if named["name"]:
            assert named["name"] in functions, row
