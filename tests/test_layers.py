"""Imports follow the layers that the docs show."""

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "placet"
PURE_PACKAGES = ("text", "protocol", "cases", "relay/a2a", "relay/policy")
PURE_FILES = ("relay/exchange.py", "relay/hold.py", "relay/task.py")
PURE_MODULES = frozenset(
    re.findall(
        r"\S+",
        """
        __future__ base64 binascii bisect codecs collections confusable_homoglyphs.confusables contextlib
        dataclasses datetime difflib enum functools hashlib hmac html.entities idna ipaddress itertools json
        jsonschema_rs math msgspec re re2 rfc8785 tomllib typing unicodedata urllib.parse
        """,
    )
)
"""What pure packages may import besides ours: modules that compute, or are a table, and do nothing else."""
IMPURE_METHODS = {"now", "open", "today", "utcnow"}
IMPURE_FUNCTIONS = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}


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


def is_impure(node: ast.AST) -> bool:
    """Whether a name or attribute reads the clock, opens a file or the like, called here or not."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return name in IMPURE_FUNCTIONS
        case ast.Attribute(attr=name):
            return name in IMPURE_METHODS
        case _:
            return False


def imported_modules(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


def may_import(module: str) -> bool:
    return bool({module, module.partition(".")[0]} & {*PURE_MODULES, "placet"})


def find_impurities(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if is_impure(node) or not all(map(may_import, imported_modules(node))):
            yield f"{getattr(node, 'lineno', 0)} {ast.unparse(node)}"


def test_pure_packages_read_no_clock_and_import_nothing_that_acts() -> None:
    packaged = [path for package in PURE_PACKAGES for path in (SOURCE / package).rglob("*.py")]
    found = [
        f"{path.relative_to(SOURCE)}:{impurity}"
        for path in (*packaged, *map(SOURCE.joinpath, PURE_FILES))
        for impurity in find_impurities(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import datetime as dt; dt.datetime.now()",
        "from datetime import datetime as D; D.now()",
        "field(default_factory=datetime.now)",
        "import urllib.request",
        "from urllib import request",
        "import numpy, json",
        "__import__('time')",
        "read = open",
        "codecs.open('file')",
    ],
)
def test_the_check_sees_every_kind_of_impurity(code: str) -> None:
    assert list(find_impurities(ast.parse(code)))
