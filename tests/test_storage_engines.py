"""The database URL chooses the storage engine, in one module."""

import ast
import os
import re
from pathlib import Path

import pytest

from placet.bootstrap.storage import database_exists, migrate_database, open_store
from placet.errors import SettingsError
from placet.testing.samples import sample_api_key

pytestmark = pytest.mark.anyio
SOURCE = Path(__file__).parent.parent / "src" / "placet"
MAY_NAME_AN_ENGINE = (
    "agent/pending_case_store.py",
    "bootstrap/storage.py",
    "extras.py",
    "hook/__init__.py",
    "hook/coding_agents/gate_history.py",
    "hook/savers/",
    "sqlite_outages.py",
    "stores/",
    "testing/steps.py",
)
ENGINES = {
    "aiosqlite",
    "apsw",
    "asyncpg",
    "psycopg",
    "psycopg2",
    "psycopg_pool",
    "redis",
    "sqlalchemy",
    "sqlite3",
}
OUR_ENGINES = re.compile(
    r"placet\.(stores\.\w+|hook\.savers\.(postgres|redis|sqlite)|hook\.(Postgres|Redis|Sqlite)Saver)\b"
)


def named_modules(path: Path) -> set[str]:
    """Return what a module imports, and all its texts, because a text can name a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ("placet", *path.relative_to(SOURCE).parts)[: -node.level] if node.level else ()
            module = ".".join((*package, *([node.module] if node.module else [])))
            found.update((module, *(f"{module}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def names_an_engine(module: str) -> bool:
    return module.partition(".")[0] in ENGINES or OUR_ENGINES.match(module) is not None


def test_only_bootstrap_names_a_storage_engine() -> None:
    named = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        engines = sorted(filter(names_an_engine, named_modules(path)))
        if engines and not name.startswith(MAY_NAME_AN_ENGINE):
            named.append((name, engines))
    assert named == []


@pytest.mark.parametrize("form", ["{path}", "sqlite:///{path}"])
async def test_a_path_and_a_url_name_the_same_file(form: str, tmp_path: Path) -> None:
    url = form.format(path=tmp_path / "cases.db")
    assert not database_exists(url)
    store = await open_store(url)
    await store.aclose()
    assert (tmp_path / "cases.db").is_file()
    assert database_exists(url)
    change = migrate_database(url)
    assert change.before == change.after


async def test_a_url_with_three_slashes_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await (await open_store("sqlite:///cases.db")).aclose()
    assert (tmp_path / "cases.db").is_file()


@pytest.mark.parametrize("url", [":memory:", "sqlite://", "sqlite:///:memory:"])
async def test_a_database_in_memory_leaves_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = await open_store(url), await open_store(url)
    await first.save_api_key(sample_api_key("acme"))
    assert (len(await first.list_api_keys()), len(await second.list_api_keys())) == (1, 0)
    await first.aclose()
    await second.aclose()
    assert os.listdir(tmp_path) == []
    assert not database_exists(url)


async def test_an_unsupported_engine_is_refused_without_printing_its_credentials() -> None:
    with pytest.raises(SettingsError, match="'mysql' is not supported") as refused:
        await open_store("mysql://user:secret@db.example/placet")
    assert "secret" not in refused.value.message


async def test_a_sqlite_url_with_a_host_is_refused() -> None:
    with pytest.raises(SettingsError, match="three slashes"):
        await open_store("sqlite://cases.db")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("sqlite:cases.db", "three slashes"),
        ("sqlite:/cases.db", "three slashes"),
        ("sqlite:///cases.db?mode=ro", "has options"),
    ],
)
async def test_a_mistyped_url_creates_no_file_of_that_name(
    url: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=complaint):
        await open_store(url)
    assert os.listdir(tmp_path) == []


def test_a_database_in_memory_cannot_be_migrated() -> None:
    with pytest.raises(SettingsError, match="in memory"):
        migrate_database(":memory:")
