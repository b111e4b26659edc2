"""Rules that every file of the project follows."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# Spelled in pieces, so that this file does not contain what it forbids.
HOME_FOLDERS = "|".join(("work", "root", "home", "Users", "tmp", "opt"))
MACHINE_PATH = re.compile(rf"(?<![\w.:/~}}-])/(?:{HOME_FOLDERS})/\w")
REGISTRIES = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="ignore")


def relative_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_names_a_machine_path() -> None:
    found = {
        relative_path(path): match[0]
        for path in tracked_files()
        if (match := MACHINE_PATH.search(text_of(path)))
    }
    assert found == {}


def test_no_file_names_a_package_registry() -> None:
    found = [
        relative_path(path) for path in tracked_files() if any(host in text_of(path) for host in REGISTRIES)
    ]
    assert found == []


def test_locks_carry_no_addresses() -> None:
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    assert locks
    assert [relative_path(lock) for lock in locks if "://" in lock.read_text()] == []


def has_docstring(source: str) -> bool:
    return source.startswith('"""') or ast.get_docstring(ast.parse(source)) is not None


def test_every_source_file_has_a_docstring() -> None:
    assert [relative_path(path) for path in SOURCES if not has_docstring(path.read_text())] == []


def list_assigned_names(source: str) -> list[str]:
    """Return every name that a module assigns at its top level, also as part of a tuple."""
    targets: list[ast.expr] = []
    for node in ast.parse(source).body:
        targets += node.targets if isinstance(node, ast.Assign) else ()
        targets += (node.target,) if isinstance(node, ast.AnnAssign) else ()
    stored = (one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return [one.id for one in stored if isinstance(one.ctx, ast.Store)]


def test_no_module_assigns_a_name_twice() -> None:
    found = {
        f"{relative_path(path)} {name}"
        for path in SOURCES
        for name, count in Counter(list_assigned_names(path.read_text())).items()
        if count > 1
    }
    assert found == set(), "The second value replaces the first one. Give one of them another name."
