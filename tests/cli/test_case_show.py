"""`placet case show`: a case with its log, and whether the chain is intact."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.cli.process import placet, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("case")


@pytest.fixture(scope="module")
def case_id(folder: Path) -> Iterator[str]:
    """A case that was withdrawn, in a database whose server still runs."""
    with serving(folder) as server:
        server.url()
        with server.client(server.admin_key) as client:
            hitl = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).json()["hitl"]
            client.post(f"/v1/reviews/{hitl['case_id']}/cancel", json={"reason": "no need"})
        yield hitl["case_id"]


def change(folder: Path, copy: Path, *statements: str) -> None:
    """A copy of the database that someone has worked on with other tools."""
    with closing(sqlite3.connect(folder / "cases.db")) as source, closing(sqlite3.connect(copy)) as to:
        source.backup(to)
        triggers = to.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for (trigger,) in triggers:  # what keeps honest programs honest
            to.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            to.execute(statement)
        to.commit()


def test_a_case_is_shown_with_who_did_what(folder: Path, case_id: str) -> None:
    run = placet(folder, "case", "show", case_id, "--db", "cases.db")
    assert run.returncode == 0
    assert run.stderr == "The chain is intact.\n"
    head, _, *rows = run.stdout.splitlines()
    assert head == f"confirmation {case_id}: cancelled, version 2"
    assert ["review.created" in rows[0], "review.cancelled" in rows[1]] == [True, True]
    assert "key:admin" in rows[1]


def test_the_same_as_json(folder: Path, case_id: str) -> None:
    shown = msgspec.json.decode(placet(folder, "case", "show", case_id, "--json", "--db", "cases.db").stdout)
    assert shown["case"]["reason"] == "no need"
    assert shown["chain_holds"] is True
    assert [event["seq"] for event in shown["events"]] == [1, 2]


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE events SET actor = 'key:someone' WHERE seq = 2", 2),
        ("UPDATE events SET data = x'7b7d' WHERE seq = 1", 1),
        ("DELETE FROM events WHERE seq = 1", 1),
        ("DELETE FROM events WHERE seq = 2", 2),
    ],
)
def test_a_log_that_was_tampered_with_is_found_out(
    folder: Path, case_id: str, statement: str, place: int, tmp_path: Path
) -> None:
    change(folder, tmp_path / "changed.db", statement)
    run = placet(tmp_path, "case", "show", case_id, "--db", "changed.db")
    assert run.returncode == 1
    assert f"The chain is broken at event {place}." in run.stderr
    as_json = placet(tmp_path, "case", "show", case_id, "--json", "--db", "changed.db")
    assert as_json.returncode == 1
    assert msgspec.json.decode(as_json.stdout)["chain_holds"] is False


def test_a_case_that_is_not_there_is_named(folder: Path, case_id: str) -> None:
    run = placet(folder, "case", "show", "review_nothing", "--db", "cases.db")
    assert run.returncode == 1
    assert run.stderr == "placet: There is no case 'review_nothing'.\n"
