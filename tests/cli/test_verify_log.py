"""`placet verify log`: the whole database against its log, with signed checkpoints."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.cli.process import placet, serving
from tests.waiting import eventually


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `cases.db`, where a server opened and withdrew cases, and `early.json`, a checkpoint."""
    folder = tmp_path_factory.mktemp("log")
    with serving(folder) as server:
        server.url()
        with server.client(server.admin_key) as client:
            for number in range(4):
                draft = {"type": "confirmation", "prompt": f"Go {number}?"}
                case_id = client.post("/v1/cases", json=draft).json()["hitl"]["case_id"]
                client.post(f"/v1/reviews/{case_id}/cancel", json={"reason": "no need"})
        saved = placet(folder, "verify", "log", "--save", "early.json", "--db", "cases.db")
        assert (saved.returncode, saved.stdout) == (0, "")
    return folder


def change(folder: Path, to: Path, *statements: str) -> None:
    """Copy the database, and work on the copy as somebody with other tools does."""
    with closing(sqlite3.connect(folder / "cases.db")) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
        names = copy.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for (name,) in names:
            copy.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            copy.execute(statement)
        copy.commit()


ONE_CASE_LESS = """replace(CAST(document AS TEXT), '"cases":4', '"cases":3')"""
NEWEST = "(SELECT max(number) FROM cases)"
DELETE_NEWEST_CASE = (
    f"DELETE FROM offers WHERE case_number = {NEWEST}",
    f"DELETE FROM events WHERE case_number = {NEWEST}",
    f"DELETE FROM cases WHERE number = {NEWEST}",
)


def test_an_intact_log_is_verified_beside_its_server(folder: Path) -> None:
    run = placet(folder, "verify", "log", "--checkpoint", "early.json", "--db", "cases.db")
    assert (run.returncode, run.stdout) == (0, "")
    assert "Verified 4 cases, 8 events, 0 audit events" in run.stderr
    assert "Problems: 0." in run.stderr


def test_totals_and_problems_are_there_as_json(folder: Path) -> None:
    found = msgspec.json.decode(placet(folder, "verify", "log", "--json", "--db", "cases.db").stdout)
    assert (found["is_intact"], found["problems"], found["totals"]["cases"]) == (True, [], 4)


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["UPDATE events SET actor = 'key:other' WHERE rowid = 3"], "The chain is broken at event 1."),
        (["DELETE FROM events WHERE rowid = 3"], "The event 3 is missing."),
        (["DELETE FROM cases WHERE number = 2"], "The case 2 is missing."),
        (["UPDATE cases SET status = 'completed' WHERE number = 2"], "The column status does not match"),
        (["UPDATE offers SET offer = x'7b7d' WHERE case_number = 2"], "The offer is not the one"),
        (["DELETE FROM checkpoints WHERE number = 1"], "Stored checkpoints are missing before number 2."),
        (["UPDATE checkpoints SET document = x'ff'"], "The stored checkpoint 1 cannot be read."),
        (
            [f"UPDATE checkpoints SET document = CAST({ONE_CASE_LESS} AS BLOB)"],
            "The signature does not match",
        ),
        (["DELETE FROM signing_keys"], "The key set must have exactly one key with this kid."),
        (DELETE_NEWEST_CASE, "events were deleted, or an older database was put back."),
    ],
)
def test_a_change_by_another_program_is_named(
    folder: Path, tmp_path: Path, statements: list[str], problem: str
) -> None:
    change(folder, tmp_path / "changed.db", *statements)
    run = placet(tmp_path, "verify", "log", "--save", "no.json", "--db", "changed.db")
    assert run.returncode == 1
    assert problem in run.stdout
    assert "placet: The log has problems" in run.stderr
    assert not (tmp_path / "no.json").exists()  # no checkpoint vouches for a log with problems


def test_a_deleted_case_and_its_checkpoints_are_missed_by_a_checkpoint_kept_elsewhere(
    folder: Path, tmp_path: Path
) -> None:
    change(folder, tmp_path / "changed.db", *DELETE_NEWEST_CASE, "DELETE FROM checkpoints")
    alone = placet(tmp_path, "verify", "log", "--db", "changed.db")
    assert alone.returncode == 0  # nothing in the database can tell
    kept = str(folder / "early.json")
    run = placet(tmp_path, "verify", "log", "--checkpoint", kept, "--db", "changed.db")
    assert run.returncode == 1
    assert "events were deleted, or an older database was put back." in run.stdout


def test_a_checkpoint_of_another_database_is_refused(folder: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.url()
    kept = str(folder / "early.json")
    run = placet(tmp_path, "verify", "log", "--checkpoint", kept, "--db", "cases.db")
    assert run.returncode == 1
    assert "it is of another database" in run.stdout


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b"[" * 100_000])
def test_a_file_that_is_no_checkpoint_is_one_sentence(folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    bad = str(tmp_path / "bad.json")
    run = placet(folder, "verify", "log", "--checkpoint", bad, "--db", "cases.db")
    assert (run.returncode, run.stderr) == (1, f"placet: {bad}: This is not a checkpoint of a log.\n")


def test_no_existing_file_is_overwritten_by_a_checkpoint(folder: Path) -> None:
    run = placet(folder, "verify", "log", "--save", "early.json", "--db", "cases.db")
    assert (run.returncode, run.stderr) == (1, "placet: early.json already exists. Name a new file.\n")


def test_checkpoints_of_a_key_that_was_rotated_and_revoked_still_count(folder: Path, tmp_path: Path) -> None:
    change(folder, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as database:
        (kid,) = database.execute("SELECT kid FROM signing_keys").fetchone()
    assert placet(tmp_path, "signing", "revoke", "--db", "copy.db", "--", kid).returncode == 0
    shutil.copy(folder / "early.json", tmp_path / "early.json")
    run = placet(tmp_path, "verify", "log", "--checkpoint", "early.json", "--db", "copy.db")
    assert (run.returncode, run.stdout) == (0, "")


def test_a_running_server_signs_a_checkpoint_and_logs_its_digest(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.url()
        stderr = tmp_path / "stderr-0"
        eventually(lambda: "log_checkpoint cases=0 events=0 digest=" in stderr.read_text("utf-8"))
    run = placet(tmp_path, "verify", "log", "--db", "cases.db")
    assert (run.returncode, run.stdout) == (0, "")
    assert "1 checkpoints" in run.stderr
