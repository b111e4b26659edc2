"""Imports follow the layers that the docs show."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "placet"
PURE_PACKAGES = ("text", "protocol", "cases")
CLOCK_METHODS = {"now", "utcnow", "today"}
IMPURE_FUNCTIONS = {"breakpoint", "input", "open", "print"}


@pytest.fixture
def enabled_loggers() -> Iterator[None]:
    """Enable the loggers again that import-linter disables; later tests read what they write."""
    known = [one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    enabled = [logger for logger in known if not logger.disabled]
    yield
    for logger in enabled:
        logger.disabled = False


@pytest.mark.usefixtures("enabled_loggers")
def test_every_import_follows_the_documented_layers(capsys: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capsys.readouterr().out


def is_impure(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in IMPURE_FUNCTIONS
        case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name):
            return name in CLOCK_METHODS
        case _:
            return False


def test_pure_packages_read_no_clock_and_open_no_file() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)}"
        for package in PURE_PACKAGES
        for path in (SOURCE / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and is_impure(node)
    ]
    assert found == []
