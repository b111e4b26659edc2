"""`placet grant`: what people allowed, seen and ended beside a running server."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.cases.grant import Grant
from placet.stores.sqlite import SqliteStore
from placet.testing.contracts.grant_store import create_case_with_grants
from placet.testing.samples import new_id, sample_grant
from tests.cli.process import placet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grants")


def create_grant(folder: Path, **changes: Any) -> Grant:
    now = datetime.now(UTC)
    fields = {"granted_at": now, "expires_at": now + timedelta(hours=1), "id": new_id("grant")}
    grant = sample_grant("", **fields | changes)

    async def write() -> None:
        store = await SqliteStore.open(folder / "cases.db")
        await create_case_with_grants(store, grant)
        await store.aclose()

    asyncio.run(write())
    return grant


def run(folder: Path, *arguments: str) -> str:
    done = placet(folder, "grant", *arguments, "--db", "cases.db")
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_grants_are_listed_with_what_is_left(folder: Path) -> None:
    live = create_grant(folder, used=2)
    over = create_grant(folder, expires_at=datetime.now(UTC) - timedelta(minutes=1), owner="other")
    listed = run(folder, "list").splitlines()
    assert listed[0].split() == ["ID", "STATE", "TOOL", "LEFT", "UNTIL", "GRANTED", "BY"]
    assert any(line.startswith(f"{live.id}  live     send_email  3/5") for line in listed)
    assert any(line.startswith(f"{over.id}  expired") for line in listed)
    found = {one["id"]: one for one in msgspec.json.decode(run(folder, "list", "--live", "--json"))}
    assert live.id in found
    assert over.id not in found
    others = msgspec.json.decode(run(folder, "list", "--owner", "other", "--json"))
    assert [one["id"] for one in others] == [over.id]


def test_one_grant_is_shown_and_nothing_in_it_drives_the_terminal(folder: Path) -> None:
    nasty = {"to": {"exact": "a\u202eb"}, "copies": {"from": 0, "to": 3}}
    grant = create_grant(folder, patterns=nasty, tool="send\u202e")
    text = run(folder, "show", grant.id)
    assert "5 of 5 left" in text
    assert "by ada@acme.example" in text
    assert "covers      copies from 0 to 3" in text
    assert "\u202e" not in text + run(folder, "show", grant.id, "--json") + run(folder, "list")


def test_grant_is_revoked_once_and_the_log_names_the_revoker(folder: Path) -> None:
    grant = create_grant(folder)
    ended: dict[str, Any] = {}
    for _ in range(2):
        done = placet(folder, "grant", "revoke", grant.id, "--db", "cases.db", "--json")
        assert (done.returncode, done.stderr) == (0, f"Revoked {grant.id}.\n")
        ended = msgspec.json.decode(done.stdout)
        assert (ended["state"], ended["revoked_by"]) == ("revoked", "operator")
    events = placet(folder, "case", "show", ended["case_id"], "--db", "cases.db").stdout
    assert str(events).count("grant.revoked") == 1


def test_an_unknown_grant_is_named(folder: Path) -> None:
    create_grant(folder)
    for word in ("show", "revoke"):
        done = placet(folder, "grant", word, "grant_x", "--db", "cases.db")
        assert (done.returncode, done.stderr) == (1, "placet: There is no grant 'grant_x'.\n")
