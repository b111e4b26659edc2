"""Files, folders and names of `placet` that the developer docs mention exist."""

import re
from importlib import import_module
from itertools import chain

import pytest

from tests.docs.markdown import ROOT

PACKAGE = ROOT / "src" / "placet"
DECISIONS = sorted(ROOT.glob("docs/decisions/*.md"))
PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md", *DECISIONS)
FOLDERS = (ROOT, PACKAGE, PACKAGE / "hook")
"""Where a path may start; architecture.md describes `hook` from the inside."""
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./<>-]+\.py")
FOLDER = re.compile(r"[a-z_]+/|[a-z_]+(?:/[a-z_]+)+/?")
DOTTED = re.compile(r"placet(?:\.\w+)+")


def list_mentions(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    return [
        (page.name, mention)
        for page in PAGES
        for mention in CODE.findall(page.read_text())
        if pattern.fullmatch(mention)
    ]


def exists(path: str) -> bool:
    """Return whether a file or folder exists; `<type>` stands for any folder."""
    return any(chain.from_iterable(folder.glob(re.sub(r"<\w+>", "*", path)) for folder in FOLDERS))


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    try:
        import_module(name)
    except ModuleNotFoundError:
        return bool(module) and hasattr(import_module(module), attribute)
    return True


@pytest.mark.parametrize("pattern", [FILE, FOLDER], ids=["files", "folders"])
def test_paths_in_the_developer_docs_exist(pattern: re.Pattern[str]) -> None:
    mentions = list_mentions(pattern)
    assert mentions
    assert [(page, path) for page, path in mentions if not exists(path.rstrip("/"))] == []


def test_dotted_names_in_the_developer_docs_exist() -> None:
    assert [(page, name) for page, name in list_mentions(DOTTED) if not resolves(name)] == []


def test_a_missing_name_is_noticed() -> None:
    assert exists("reviews/<type>/declaration.py")
    assert not exists("reviews/none.py")
    assert resolves("placet.errors.PlacetError")
    assert not resolves("placet.errors.NoSuchError")
