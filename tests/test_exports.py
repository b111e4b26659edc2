"""The public names of `placet`."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import placet
from placet.extras import NEEDED_BY


def test_every_public_name_loads_and_has_a_docstring() -> None:
    for name, module in placet._EXPORTS.items():
        value = getattr(placet, name)
        assert value is getattr(import_module(module), name), name
        assert value.__doc__, name


def test_the_list_of_names_is_the_table() -> None:
    assert set(placet.__all__) == {"__version__", *placet._EXPORTS}
    assert dir(placet) == sorted(placet.__all__)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(placet.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in ast.walk(block) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == placet._EXPORTS


def test_unknown_name_raises_an_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        getattr(placet, "Nonsense")  # noqa: B009 - a type checker refuses the plain spelling, as it should


def test_importing_placet_loads_nothing_but_its_tables_of_names() -> None:
    loaded = "import placet, sys; print(*(m for m in sys.modules if m.startswith('placet.')))"
    outcome = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, check=True, text=True, timeout=60
    )
    assert outcome.stdout.split() == ["placet.extras", "placet.lazy_exports"]


def test_the_table_of_extras_names_modules_that_exist() -> None:
    source = Path(placet.__file__).parent.parent
    modules = [source.joinpath(*name.split(".")) for name in NEEDED_BY if "*" not in name]
    assert [path for path in modules if not (path.is_dir() or path.with_suffix(".py").is_file())] == []
