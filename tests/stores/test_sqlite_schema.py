"""A database file is ours, current and private, or it is refused with words that help."""

import os
import stat
import threading
from pathlib import Path

import apsw
import pytest

from placet.errors import MigrationError, SettingsError
from placet.stores.sql.schema_state import SchemaState
from placet.stores.sqlite.migrate import (
    APPLICATION_ID,
    MIGRATIONS,
    migrate,
    prepare_file,
    read_schema_state,
)
from placet.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

SCHEMA = Path(migrate.__code__.co_filename).with_name("schema.sql")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "placet.db"


def read_schema(connection: apsw.Connection) -> list[tuple[str, str]]:
    return sorted(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))


def write(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def test_the_schema_is_the_sum_of_the_migrations(path: Path) -> None:
    migrate(path)
    direct = apsw.Connection(":memory:")
    direct.execute(SCHEMA.read_text())
    assert read_schema(apsw.Connection(str(path))) == read_schema(direct)


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(MIGRATIONS) == list(range(1, len(MIGRATIONS) + 1))


def test_a_new_file_reaches_the_newest_schema_and_says_whose_it_is(path: Path) -> None:
    known = max(MIGRATIONS)
    assert read_schema_state(path) == SchemaState(version=0, known=known)
    assert not path.exists()
    assert migrate(path).is_empty
    assert read_schema_state(path).is_current
    assert apsw.Connection(str(path)).pragma("application_id") == APPLICATION_ID


def test_migrating_twice_changes_nothing(path: Path) -> None:
    migrate(path)
    assert migrate(path).is_current


def test_two_processes_may_create_the_file_at_once(path: Path) -> None:
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            migrate(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert read_schema_state(path).is_current


async def test_a_new_file_is_readable_by_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        store = await SqliteStore.open(path)
        rights = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        await store.aclose()
    finally:
        os.umask(before)
    assert rights == dict.fromkeys(["placet.db", "placet.db-wal", "placet.db-shm"], 0o600)


async def test_a_closed_store_leaves_one_file(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.get_or_create_secret("name", "value")
    await store.aclose()
    assert [file.name for file in path.parent.iterdir()] == ["placet.db"]


def test_an_older_file_asks_for_the_migration_and_keeps_its_content(path: Path) -> None:
    migrate(path)
    newer = {**MIGRATIONS, max(MIGRATIONS) + 1: "ALTER TABLE secrets ADD COLUMN note TEXT"}
    write(path, "INSERT INTO secrets VALUES ('name', 'value')")
    with pytest.raises(MigrationError, match="run `placet migrate`"):
        prepare_file(path, scripts=newer)
    assert not migrate(path, scripts=newer).is_current
    prepare_file(path, scripts=newer)
    kept = apsw.Connection(str(path)).execute("SELECT * FROM secrets").fetchall()
    assert kept == [("name", "value", None)]


def test_a_migration_that_fails_leaves_the_schema_as_it_was(path: Path) -> None:
    migrate(path)
    broken = {**MIGRATIONS, max(MIGRATIONS) + 1: "CREATE TABLE more (x); SELECT nonsense FROM nowhere"}
    with pytest.raises(MigrationError):
        migrate(path, scripts=broken)
    assert read_schema_state(path).is_current
    assert "more" not in dict(read_schema(apsw.Connection(str(path))))


async def test_a_newer_file_is_refused(path: Path) -> None:
    migrate(path)
    write(path, "PRAGMA user_version = 999")
    with pytest.raises(MigrationError, match=r"schema 999, written by a newer version"):
        await SqliteStore.open(path)
    with pytest.raises(MigrationError, match="newer"):
        migrate(path)


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    write(path, "CREATE TABLE recipes (name TEXT)")
    content = path.read_bytes()
    for attempt in (prepare_file, migrate, read_schema_state):
        with pytest.raises(MigrationError, match="not one of Placet's"):
            attempt(path)
    assert path.read_bytes() == content


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("Dear diary, today I approved everything. " * 100)
    content = path.read_bytes()
    for attempt in (prepare_file, migrate, read_schema_state):
        with pytest.raises(MigrationError, match="not an SQLite database"):
            attempt(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    prepare_file(path)
    assert read_schema_state(path).is_current


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="missing"):
        await SqliteStore.open(tmp_path / "missing" / "placet.db")


async def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        await SqliteStore.open(tmp_path)


async def test_odd_names_are_just_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:x?mode=memory"):
        await (await SqliteStore.open(name)).aclose()
        assert (tmp_path / name).is_file()
