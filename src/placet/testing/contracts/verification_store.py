"""The contract suites of PasskeyStore and VerificationStore."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.errors import CaseConflict
from placet.ports.passkey_store import Passkey, PasskeyInvitation
from placet.ports.store import Store
from placet.ports.verification_store import PageProof, VerificationAttempt
from placet.protocol.poll import RespondedBy
from placet.protocol.verification import VerifiedEvidence
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.case_store import create_answered_case, create_sample_case
from placet.testing.contracts.erasure import sample_erasure

LATER = DAYBREAK + timedelta(minutes=15)


def sample_invitation(digest: str = "invited", **changes: Any) -> PasskeyInvitation:
    fields = {"email": "ada@acme.example", "user_handle": "aGFuZGxl", "expires_at": LATER, **changes}
    return PasskeyInvitation(digest=digest, **fields)


def sample_passkey(id: str = "key", **changes: Any) -> Passkey:
    fields = {"email": "ada@acme.example", "user_handle": "aGFuZGxl", "public_key": "cHVibGlj", **changes}
    return Passkey(id=id, created_at=DAYBREAK, **fields)


def sample_attempt(case_id: str, id: str = "attempt", **changes: Any) -> VerificationAttempt:
    fields: dict[str, Any] = {"action": "confirm", "data": {}, "answer_digest": "0" * 64, "actor": "link:1"}
    fields |= {"created_at": DAYBREAK, "expires_at": LATER, **changes}
    return VerificationAttempt(id=id, case_id=case_id, **fields)


@pytest.mark.anyio
class PasskeyStoreContract:
    """Tests of passkeys and invitations."""

    async def test_an_invitation_registers_one_passkey(self, store: Store) -> None:
        await store.add_passkey_invitation(sample_invitation(), now=DAYBREAK)
        assert await store.get_passkey_invitation("invited") == sample_invitation()
        registrations = (
            store.register_passkey(sample_passkey(id), invitation="invited") for id in ("a", "b")
        )
        outcomes = await asyncio.gather(*registrations, return_exceptions=True)
        assert [type(one) for one in outcomes if one is not None] == [CaseConflict]
        assert await store.get_passkey_invitation("invited") is None
        assert len(await store.list_passkeys()) == 1

    async def test_a_known_passkey_is_refused_and_the_invitation_stays(self, store: Store) -> None:
        for digest in ("one", "two"):
            await store.add_passkey_invitation(sample_invitation(digest), now=DAYBREAK)
        await store.register_passkey(sample_passkey(), invitation="one")
        with pytest.raises(CaseConflict):
            await store.register_passkey(sample_passkey(email="eve@acme.example"), invitation="two")
        assert await store.get_passkey("key") == sample_passkey()
        assert await store.get_passkey_invitation("two") is not None

    async def test_a_new_invitation_deletes_those_that_have_expired(self, store: Store) -> None:
        await store.add_passkey_invitation(sample_invitation("old"), now=DAYBREAK)
        await store.add_passkey_invitation(
            sample_invitation("new", expires_at=LATER + timedelta(days=1)), now=LATER
        )
        assert await store.get_passkey_invitation("old") is None

    async def test_a_counter_moves_once_from_each_value(self, store: Store) -> None:
        await store.add_passkey_invitation(sample_invitation(), now=DAYBREAK)
        await store.register_passkey(sample_passkey(sign_count=4), invitation="invited")
        await store.record_passkey_use("key", previous=4, sign_count=5, used_at=LATER)
        with pytest.raises(CaseConflict):
            await store.record_passkey_use("key", previous=4, sign_count=6, used_at=LATER)
        assert await store.get_passkey("key") == sample_passkey(sign_count=5, used_at=LATER)

    async def test_a_removed_passkey_is_gone(self, store: Store) -> None:
        await store.add_passkey_invitation(sample_invitation(), now=DAYBREAK)
        await store.register_passkey(sample_passkey(), invitation="invited")
        await store.remove_passkey("key")
        assert await store.get_passkey("key") is None
        with pytest.raises(CaseConflict):
            await store.record_passkey_use("key", previous=0, sign_count=1, used_at=LATER)
        with pytest.raises(CaseConflict):
            await store.remove_passkey("key")


@pytest.mark.anyio
class VerificationStoreContract:
    """Tests of verification attempts."""

    async def test_an_attempt_is_kept_until_it_is_deleted(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        found = VerifiedEvidence(proof_type="x-passkey", provider="placet", verified_at=DAYBREAK)
        proof = PageProof(format="x-webauthn", found=found, person=RespondedBy(email="ada@acme.example"))
        attempt = sample_attempt(case.id, data={"note": "ü"}, started={"passkey": {"challenge": "c"}})
        await store.add_verification_attempt(attempt, most=2)
        assert await store.get_verification_attempt("attempt") == attempt
        proven = replace(attempt, version=2, proofs=(proof,))
        await store.update_verification_attempt(proven)
        assert await store.get_verification_attempt("attempt") == proven
        for _ in range(2):
            await store.delete_verification_attempt("attempt")
            assert await store.get_verification_attempt("attempt") is None

    async def test_an_attempt_changes_once_from_each_version(self, store: Store) -> None:
        attempt = sample_attempt((await create_sample_case(store)).case.id)
        await store.add_verification_attempt(attempt, most=1)
        changes = (store.update_verification_attempt(replace(attempt, version=2, failures=n)) for n in (1, 2))
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        assert sorted(type(one).__name__ for one in outcomes) == ["CaseConflict", "NoneType"]

    async def test_a_case_has_no_more_attempts_than_allowed(self, store: Store) -> None:
        case_id = (await create_sample_case(store)).case.id
        await store.add_verification_attempt(sample_attempt(case_id, "a"), most=1)
        with pytest.raises(CaseConflict):
            await store.add_verification_attempt(sample_attempt(case_id, "b"), most=1)
        later = sample_attempt(case_id, "c", created_at=LATER, expires_at=LATER + timedelta(minutes=15))
        await store.add_verification_attempt(later, most=1)
        assert await store.get_verification_attempt("a") is None

    async def test_erasure_and_purge_delete_attempts(self, store: Store) -> None:
        case = await create_answered_case(store)
        other = (await create_sample_case(store, id="review_other")).case
        await store.add_verification_attempt(sample_attempt(case.id, "a"), most=1)
        await store.add_verification_attempt(sample_attempt(other.id, "b"), most=1)
        await store.erase_case(sample_erasure(case))
        assert await store.get_verification_attempt("a") is None
        await store.purge(LATER)
        assert await store.get_verification_attempt("b") is None
