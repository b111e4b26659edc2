"""Generate the tree of the package, its layers, and the list of decision records."""

import ast
import re
import tomllib
from pathlib import Path

from scripts.drawing import ROOT

PACKAGE = ROOT / "src" / "placet"
DECISIONS = ROOT / "docs" / "decisions"


def draw_tree() -> str:
    """Return the top-level packages and modules with the first paragraph of their docstrings."""
    return _draw_folder(PACKAGE)


def _draw_folder(folder: Path) -> str:
    entries = [path for path in sorted(folder.iterdir()) if _is_code(path)]
    names = [(path.name + "/" if path.is_dir() else path.name, path) for path in entries]
    width = max(len(name) for name, _ in names)
    lines = [f"  {name.ljust(width)}  {_first_sentence(path)}" for name, path in names]
    return "\n".join(["```text", f"{folder.relative_to(ROOT)}/", *lines, "```"])


def draw_relay_tree() -> str:
    """Return the relay's packages and modules with the first sentence of their docstrings."""
    return _draw_folder(PACKAGE / "relay")


def draw_layers() -> str:
    """Return the layers of the whole package from top to bottom."""
    return _draw_layers_of("placet")


def draw_relay_layers() -> str:
    """Return the layers inside the relay from top to bottom."""
    return _draw_layers_of("placet.relay")


def _draw_layers_of(package: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == [package])
    return "\n".join(["```text", *layers, "```"])


def draw_decisions() -> str:
    """Return a list of links to the decision records."""
    records = sorted(DECISIONS.glob("[0-9]*.md"))
    return "\n".join(f"- [{path.stem[:4]} {_title(path)}]({path.name})" for path in records)


def _title(path: Path) -> str:
    first = path.read_text("utf-8").lstrip().splitlines()[0]
    return re.sub(r"^#\s*(\d+[.:]?\s+)?", "", first)


def _is_code(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").is_file()
    return path.suffix == ".py"


def _first_sentence(path: Path) -> str:
    module = path / "__init__.py" if path.is_dir() else path
    said = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split())
