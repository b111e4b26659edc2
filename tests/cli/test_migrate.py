"""`placet migrate`: new files, current files, files from the future, files of others."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.process import placet


def user_version(path: Path, version: int | None = None) -> int:
    with closing(sqlite3.connect(path)) as connection:
        if version is not None:
            connection.execute(f"PRAGMA user_version = {version}")
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_new_file_gets_the_newest_schema_and_a_current_one_is_left_as_it_is(tmp_path: Path) -> None:
    first = placet(tmp_path, "migrate", "--db", "cases.db")
    newest = user_version(tmp_path / "cases.db")
    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr == f"Created cases.db at schema {newest}.\n"
    again = placet(tmp_path, "migrate", "--db", "cases.db")
    assert again.stderr == f"cases.db is already at schema {newest}.\n"


def test_the_database_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    placet(tmp_path, "migrate", "--db", "cases.db")
    assert (tmp_path / "cases.db").stat().st_mode & 0o077 == 0


def test_a_file_from_a_newer_version_is_refused_by_every_command(tmp_path: Path) -> None:
    placet(tmp_path, "migrate", "--db", "cases.db")
    user_version(tmp_path / "cases.db", 99)
    for command in (("migrate",), ("serve", "--port", "0"), ("key", "list")):
        run = placet(tmp_path, *command, "--db", "cases.db")
        assert run.returncode == 1
        assert "schema 99, written by a newer version of Placet" in run.stderr


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    run = placet(tmp_path, "migrate", "--db", "theirs.db")
    assert run.returncode == 1
    assert "not one of Placet's" in run.stderr


def test_a_file_that_was_copied_only_in_part_is_said_to_be_damaged(tmp_path: Path) -> None:
    placet(tmp_path, "migrate", "--db", "cases.db")
    whole = (tmp_path / "cases.db").read_bytes()
    (tmp_path / "part.db").write_bytes(whole[: len(whole) // 3])
    for command in (("migrate",), ("relay", "agent", "list"), ("serve", "--port", "0")):
        run = placet(tmp_path, *command, "--db", "part.db")
        assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
        assert run.stderr.startswith("placet: part.db is damaged: ")


def test_failed_migration_says_what_failed_and_leaves_the_file_usable(tmp_path: Path) -> None:
    placet(tmp_path, "migrate", "--db", "cases.db")
    newest = user_version(tmp_path / "cases.db")
    user_version(tmp_path / "cases.db", 1)  # its tables are newer than it says
    run = placet(tmp_path, "migrate", "--db", "cases.db")
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1), run.stderr
    assert run.stderr.startswith("placet: cases.db could not be migrated to schema 2: ")
    assert "That step was undone." in run.stderr
    assert user_version(tmp_path / "cases.db") == 1
    user_version(tmp_path / "cases.db", newest)
    assert placet(tmp_path, "key", "list", "--db", "cases.db").returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        "folder",
        "pipe",
        "loop",
        "/dev/null",
        "/proc/version/x.db",
        "no/such/x.db",
        f"{'x' * 300}.db",
        "dangling",
    ],
)
@pytest.mark.parametrize("command", [("migrate",), ("serve", "--port", "0"), ("key", "list")])
def test_path_that_cannot_be_a_database_is_refused_in_one_sentence(
    tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("no/such/x.db")
    run = placet(tmp_path, *command, "--db", name)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1), run.stderr
    assert run.stderr.startswith("placet: ")
