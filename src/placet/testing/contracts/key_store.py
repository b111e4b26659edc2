"""The contract suite of KeyStore."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from placet.errors import CaseConflict
from placet.ports.key_store import KeyStore, StoredSession
from placet.testing.clock import DAYBREAK
from placet.testing.samples import sample_api_key


@pytest.mark.anyio
class KeyStoreContract:
    """Tests of API keys, inbox sessions, signing keys and secrets."""

    async def test_an_api_key_is_found_by_its_digest(self, store: KeyStore) -> None:
        key = sample_api_key(scopes=("admin",), expires_at=DAYBREAK + timedelta(days=90))
        await store.save_api_key(key)
        assert await store.get_api_key(key.digest) == key
        assert await store.get_api_key("unknown") is None

    async def test_a_revoked_key_is_still_found(self, store: KeyStore) -> None:
        key = sample_api_key()
        await store.save_api_key(key)
        revoked = replace(key, revoked_at=DAYBREAK)
        await store.save_api_key(revoked)
        assert await store.get_api_key(key.digest) == revoked
        assert list(await store.list_api_keys()) == [revoked]

    async def test_keys_are_listed_oldest_first(self, store: KeyStore) -> None:
        new, old = (
            sample_api_key(created_at=DAYBREAK + timedelta(days=1)),
            sample_api_key(created_at=DAYBREAK),
        )
        for key in (new, old):
            await store.save_api_key(key)
        assert list(await store.list_api_keys()) == [old, new]

    async def test_two_keys_cannot_share_a_digest(self, store: KeyStore) -> None:
        key = sample_api_key()
        await store.save_api_key(key)
        with pytest.raises(CaseConflict):
            await store.save_api_key(sample_api_key("intruder", digest=key.digest))
        assert list(await store.list_api_keys()) == [key]

    async def test_a_deleted_session_is_not_found(self, store: KeyStore) -> None:
        ends_at = DAYBREAK + timedelta(hours=12)
        session = StoredSession(digest="a", key_digest="key", ends_at=ends_at)
        await store.add_inbox_session(session, now=DAYBREAK)
        await store.add_inbox_session(replace(session, digest="b"), now=DAYBREAK)
        assert await store.get_inbox_session("a") == session
        for _ in range(2):
            await store.delete_inbox_session("a")
            assert await store.get_inbox_session("a") is None
        assert await store.get_inbox_session("b") == replace(session, digest="b")

    async def test_a_new_session_deletes_those_that_have_ended(self, store: KeyStore) -> None:
        early = StoredSession(digest="a", key_digest="key", ends_at=DAYBREAK + timedelta(hours=1))
        later = replace(early, digest="b", ends_at=DAYBREAK + timedelta(hours=3))
        await store.add_inbox_session(early, now=DAYBREAK)
        await store.add_inbox_session(later, now=DAYBREAK + timedelta(hours=1))
        assert await store.get_inbox_session("a") is None
        assert await store.get_inbox_session("b") == later

    async def test_signing_keys_are_kept_oldest_first(self, store: KeyStore) -> None:
        assert not await store.list_signing_keys()
        await store.save_signing_keys([("old", "{old}")])
        await store.save_signing_keys([("old", "{old, retired}"), ("new", "{new}")])
        assert list(await store.list_signing_keys()) == ["{old, retired}", "{new}"]

    async def test_the_first_secret_of_a_name_is_kept(self, store: KeyStore) -> None:
        assert await store.get_or_create_secret("cookies", "first") == "first"
        assert await store.get_or_create_secret("cookies", "second") == "first"
        assert await store.get_or_create_secret("replays", "third") == "third"

    async def test_concurrent_callers_get_the_same_secret(self, store: KeyStore) -> None:
        async with asyncio.timeout(30):
            found = await asyncio.gather(
                *(store.get_or_create_secret("cookies", f"fresh {n}") for n in range(16))
            )
        assert len(set(found)) == 1
