"""`placet passkey`: invitations, and passkeys listed and removed."""

import asyncio
import json
import re
from pathlib import Path

from placet.cases.tokens import digest_token
from placet.desk.passkey_invitations import invite
from placet.stores.sqlite.store import SqliteStore
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.verification_store import sample_passkey
from tests.cli.process import placet

DB = ("--db", "cases.db")


def test_an_invitation_is_a_link_with_a_host_name(tmp_path: Path) -> None:
    refused = placet(tmp_path, "passkey", "invite", "ada@acme.example", *DB)
    assert refused.returncode != 0
    assert "http://localhost:8400" in refused.stderr
    (tmp_path / "placet.toml").write_text('base_url = "https://review.acme.example"\n')
    made = placet(tmp_path, "passkey", "invite", "ada@acme.example", "--name", "Ada Lovelace", *DB)
    link = r"https://review\.acme\.example/passkeys/new\?token=[\w-]{43}\n"
    assert re.fullmatch(link, made.stdout), made.stderr
    for bad in (("ada",), ("ada@acme.example", "--name", "\u202eadA"), ("a@b.example", "--expires-in", "x")):
        assert placet(tmp_path, "passkey", "invite", *bad, *DB).returncode != 0


def test_a_lost_passkey_is_listed_and_removed(tmp_path: Path) -> None:
    async def register() -> None:
        store = await SqliteStore.open(tmp_path / "cases.db")
        for id in ("lost-1234", "kept-5678"):
            token = await invite(store, "ada@acme.example", now=DAYBREAK)
            await store.register_passkey(sample_passkey(id), invitation=digest_token(token))
        await store.aclose()

    asyncio.run(register())
    assert "ada@acme.example" in placet(tmp_path, "passkey", "list", *DB).stdout
    assert placet(tmp_path, "passkey", "remove", "lost", *DB).returncode == 0
    assert placet(tmp_path, "passkey", "remove", "lost", *DB).returncode != 0
    left = json.loads(placet(tmp_path, "passkey", "list", "--json", *DB).stdout)
    assert [one["id"] for one in left] == ["kept-5678"]
