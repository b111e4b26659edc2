"""Draws the package's tree from its own words, its layers from their contract, and the list of decisions."""

import ast
import re
import tomllib
from pathlib import Path

from scripts.drawing import ROOT

PACKAGE = ROOT / "src" / "placet"
DECISIONS = ROOT / "docs" / "decisions"


def draw_tree() -> str:
    """Every package and every module at the top, with the first sentence of its docstring."""
    entries = [path for path in sorted(PACKAGE.iterdir()) if _is_code(path)]
    names = [(path.name + "/" if path.is_dir() else path.name, path) for path in entries]
    width = max(len(name) for name, _ in names)
    lines = [f"  {name.ljust(width)}  {_says(path)}" for name, path in names]
    return "\n".join(["```text", "src/placet/", *lines, "```"])


def draw_layers() -> str:
    """The layers from top to bottom; those in parentheses have no code yet."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return "\n".join(["```text", *layers, "```"])


def draw_decisions() -> str:
    """Every record by its title."""
    records = sorted(DECISIONS.glob("[0-9]*.md"))
    return "\n".join(f"- [{path.stem[:4]} {_title(path)}]({path.name})" for path in records)


def _title(path: Path) -> str:
    first = path.read_text("utf-8").lstrip().splitlines()[0]
    return re.sub(r"^#\s*(\d+[.:]?\s+)?", "", first)


def _is_code(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").is_file()
    return path.suffix == ".py"


def _says(path: Path) -> str:
    module = path / "__init__.py" if path.is_dir() else path
    said = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split())
