"""A revoked key proves nothing: it is published no more, and a running signer notices."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.bootstrap.storage import open_memory_store
from placet.errors import SettingsError, SignatureInvalid
from placet.ports.store import Store
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, dump_key, load_key
from placet.signing.stored_signer import StoredSigner, read_published_keys, revoke_key, rotate_keys
from placet.signing.verify import verify_result
from tests.signing.polls import ring, signed_poll
from tests.signing.samples import LATER, NOW

pytestmark = pytest.mark.anyio
MUCH_LATER = LATER + timedelta(days=1)


async def open_signer(store: Store) -> StoredSigner:
    return await StoredSigner.open(store, algorithm="ES256", clock=lambda: NOW)


def kids(jwks: dict[str, Any]) -> list[str]:
    return [key["kid"] for key in jwks["keys"]]


def test_signature_of_a_stolen_key_with_an_earlier_date_is_refused_after_revocation() -> None:
    stolen = ring("ES256")
    forged = signed_poll(JwsSigner(stolen))
    rotated = stolen.rotate(now=LATER)
    assert verify_result(forged, JwsSigner(rotated).jwks()).action == "approve"
    revoked = rotated.revoke(stolen.current.kid, now=MUCH_LATER)
    with pytest.raises(SignatureInvalid, match="exactly one key"):
        verify_result(forged, JwsSigner(revoked).jwks())


def test_current_key_is_replaced_when_it_is_revoked() -> None:
    old = ring("EdDSA")
    new = old.revoke(old.current.kid, now=LATER)
    (revoked,) = new.earlier
    assert (new.current.algorithm, new.current.created_at) == ("EdDSA", LATER)
    assert (revoked.kid, revoked.retired_at, revoked.revoked_at) == (old.current.kid, LATER, LATER)
    assert '"d"' not in dump_key(revoked)
    assert load_key(dump_key(revoked)) == revoked


def test_revoking_again_changes_nothing() -> None:
    once = ring("ES256").revoke(ring("ES256").current.kid, now=LATER)
    assert once.revoke(ring("ES256").current.kid, now=MUCH_LATER) == once


@pytest.mark.parametrize("kid", ["", "nothing", "-", "' OR 1=1", "\u202e"])
def test_unknown_key_is_named(kid: str) -> None:
    with pytest.raises(SettingsError, match="There is no signing key"):
        ring("ES256").revoke(kid, now=LATER)


async def test_running_signer_stops_publishing_an_earlier_key_that_was_revoked() -> None:
    store = open_memory_store()
    signer = await open_signer(store)
    (first,) = kids(signer.jwks())
    await rotate_keys(store, now=LATER)
    await signer.refresh()
    current, earlier = kids(signer.jwks())
    assert earlier == first
    await revoke_key(store, first, now=MUCH_LATER)
    await signer.refresh()
    assert kids(signer.jwks()) == kids(await read_published_keys(store)) == [current]
    await signer.aclose()
    await store.aclose()


async def test_running_signer_stops_signing_with_a_key_that_was_revoked() -> None:
    store = open_memory_store()
    signer = await open_signer(store)
    (first,) = kids(signer.jwks())
    await revoke_key(store, first, now=LATER)
    await signer.refresh()
    (current,) = kids(signer.jwks())
    assert current != first
    await signer.aclose()
    await store.aclose()


async def test_running_signer_notices_that_a_key_was_retired_without_a_new_one() -> None:
    """Two servers that start at once each create a key; one of them is retired later."""
    store = open_memory_store()
    signer = await open_signer(store)
    second = ring("ES256").current
    await store.save_signing_keys([(second.kid, dump_key(second))])
    await signer.refresh()
    assert not any("retired_at" in key for key in signer.jwks()["keys"])
    newest = KeyRing.of([load_key(text) for text in await store.list_signing_keys()])
    (other,) = newest.earlier
    await store.save_signing_keys([(other.kid, dump_key(other.retire(now=LATER)))])
    await signer.refresh()
    assert [key.get("retired_at") for key in signer.jwks()["keys"]] == [None, LATER.isoformat()]
    await signer.aclose()
    await store.aclose()


async def test_rotation_does_not_undo_a_revocation() -> None:
    store = open_memory_store()
    signer = await open_signer(store)
    (first,) = kids(signer.jwks())
    await revoke_key(store, first, now=LATER)
    await rotate_keys(store, now=datetime.now(UTC))
    assert first not in kids(await read_published_keys(store))
    await signer.aclose()
    await store.aclose()


async def test_store_without_keys_has_nothing_to_revoke() -> None:
    store = open_memory_store()
    with pytest.raises(SettingsError, match="no signing keys yet"):
        await revoke_key(store, "nothing", now=NOW)
    await store.aclose()
