"""`placet backup`: a consistent copy that only its owner can read."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.process import placet, serving


def test_copy_of_a_running_servers_database_is_complete_and_readable_by_its_owner_alone(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        with serving(tmp_path) as server:
            server.url()
            with server.client(server.admin_key) as client:
                draft = {"type": "confirmation", "prompt": "Go?"}
                case_id = client.post("/v1/cases", json=draft).json()["hitl"]["case_id"]
            run = placet(tmp_path, "backup", "copy.db", "--db", "cases.db")
        assert (run.returncode, run.stdout) == (0, ""), run.stderr
        assert run.stderr == "Copied cases.db to copy.db.\n"
    finally:
        os.umask(before)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("copy.db-*"))
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    shown = placet(tmp_path, "case", "show", case_id, "--db", "copy.db")
    assert shown.returncode == 0, shown.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    placet(tmp_path, "migrate", "--db", "cases.db")
    return tmp_path


def test_existing_file_is_never_overwritten(folder: Path) -> None:
    (folder / "kept").write_text("important")
    (folder / "link").symlink_to(folder / "elsewhere")
    for target in ("kept", "link", "cases.db", "."):
        run = placet(folder, "backup", target, "--db", "cases.db")
        assert (run.returncode, run.stderr) == (1, f"placet: {target} already exists. Name a new file.\n")
    assert (folder / "kept").read_text() == "important"
    assert not (folder / "elsewhere").exists()


def test_failed_backup_leaves_no_file(folder: Path) -> None:
    (folder / "text.db").write_text("This is not a database, but it is long enough to be read as one." * 9)
    cases = {
        "text.db": "cannot be copied to copy.db",
        "none.db": "There is no database none.db.",
        ":memory:": "a database in memory cannot be copied",
    }
    for db, complaint in cases.items():
        run = placet(folder, "backup", "copy.db", "--db", db)
        assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
        assert complaint in run.stderr
        assert not (folder / "copy.db").exists()
    nowhere = placet(folder, "backup", "no/such/folder.db", "--db", "cases.db")
    assert nowhere.returncode == 1
    assert "The backup cannot be written to no/such/folder.db: No such file" in nowhere.stderr
