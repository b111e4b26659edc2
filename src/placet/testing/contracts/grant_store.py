"""The contract suite of GrantStore: grants are written, changed and erased together with their case."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from placet.cases.case import Case
from placet.cases.commands import UseGrant
from placet.cases.grant import Grant, GrantUse
from placet.errors import CaseConflict
from placet.ports.case_store import CaseUpdate
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.case_store import create_sample_case
from placet.testing.contracts.erasure import sample_erasure
from placet.testing.samples import DAY, sample_approval, sample_grant, sample_update


async def create_case_with_grants(store: Store, *grants: Grant) -> Case:
    """Create a case whose answer gives these grants, whatever case they name, and return it."""
    now = min((grant.granted_at for grant in grants), default=DAYBREAK)
    case = (await create_sample_case(store, now=now)).case
    given = tuple(replace(grant, case_id=case.id) for grant in grants)
    answer = sample_update(case, sample_approval("person", *given), grants=given)
    await store.update_case(answer)
    return answer.step.case


def sample_grant_use(case: Case, grant: Grant, key: str) -> CaseUpdate:
    """Return the update that uses the grant once."""
    spent = replace(grant, case_id=case.id).spend()
    use = GrantUse(
        owner="acme",
        key=key,
        grant_id=grant.id,
        call_digest="d",
        used_at=DAYBREAK,
        expires_at=grant.expires_at,
    )
    order = UseGrant(actor="key:acme", grant=spent, call={"id": key})
    return sample_update(case, order, grants=(spent,), grant_use=use)


@pytest.mark.anyio
class GrantStoreContract:
    """Tests of grants and their uses."""

    async def test_a_grant_is_kept_as_it_was_given(self, store: Store) -> None:
        grant = sample_grant("", revoked_at=DAYBREAK, revoked_by="key:acme")
        case = await create_case_with_grants(store, grant)
        assert await store.get_grant(grant.id) == replace(grant, case_id=case.id)
        assert await store.get_grant("unknown") is None

    async def test_a_grant_of_a_refused_answer_does_not_exist(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        await store.update_case(sample_update(case, sample_approval()))
        late = sample_grant(case.id)
        with pytest.raises(CaseConflict):
            await store.update_case(sample_update(case, sample_approval("person", late), grants=(late,)))
        assert await store.get_grant(late.id) is None

    async def test_grants_are_listed_newest_first_and_page_by_page(self, store: Store) -> None:
        grants = [sample_grant("") for _ in range(5)]
        case = await create_case_with_grants(store, *grants)
        await create_case_with_grants(store, sample_grant("", owner="other"))
        newest = [replace(grant, case_id=case.id) for grant in reversed(grants)]
        assert list(await store.list_grants("acme", limit=2)) == newest[:2]
        assert list(await store.list_grants("acme", before=newest[1].id)) == newest[2:]
        assert len(await store.list_grants()) == 6
        assert list(await store.list_grants_of_case(case.id)) == newest
        assert list(await store.list_grants_of_case("unknown")) == []
        assert list(await store.list_grants("acme", before="unknown")) == []

    async def test_only_usable_grants_of_the_owner_and_tool_are_listed(self, store: Store) -> None:
        live = sample_grant("")
        case = await create_case_with_grants(
            store,
            live,
            sample_grant("", used=5),
            sample_grant("", revoked_at=DAYBREAK),
            sample_grant("", tool="delete_file"),
            sample_grant("", owner="other"),
            sample_grant("", expires_at=DAYBREAK + timedelta(minutes=1)),
        )
        later = DAYBREAK + timedelta(minutes=1)
        assert list(await store.list_usable_grants("acme", "send_email", later)) == [
            replace(live, case_id=case.id)
        ]
        assert list(await store.list_usable_grants("acme", "send_email", DAYBREAK + DAY)) == []

    async def test_a_use_is_found_by_its_key(self, store: Store) -> None:
        grant = sample_grant("")
        case = await create_case_with_grants(store, grant)
        step = sample_grant_use(case, grant, "first")
        await store.update_case(step)
        assert await store.get_grant_use("acme", "first") == step.grant_use
        assert await store.get_grant_use("other", "first") is None
        used = await store.get_grant(grant.id)
        assert used is not None
        assert (used.used, used.uses_left) == (1, 4)

    async def test_a_use_key_is_accepted_once(self, store: Store) -> None:
        grant = sample_grant("")
        step = sample_grant_use(await create_case_with_grants(store, grant), grant, "first")
        await store.update_case(step)
        with pytest.raises(CaseConflict):
            await store.update_case(sample_grant_use(step.step.case, step.grants[0], "first"))
        used = await store.get_grant(grant.id)
        assert used is not None
        assert used.used == 1
        assert await store.get_case(step.step.case.id) == step.step.case

    async def test_only_one_of_many_uses_of_one_version_succeeds(self, store: Store) -> None:
        grant = sample_grant("")
        case = await create_case_with_grants(store, grant)
        async with asyncio.timeout(30):
            ended = await asyncio.gather(
                *(store.update_case(sample_grant_use(case, grant, f"key {n}")) for n in range(16)),
                return_exceptions=True,
            )
        assert ended.count(None) == 1
        used = await store.get_grant(grant.id)
        assert used is not None
        assert used.used == 1

    async def test_erasing_a_case_ends_and_empties_its_grants(self, store: Store) -> None:
        grant, other = sample_grant(""), sample_grant("")
        case = await create_case_with_grants(store, grant)
        await create_case_with_grants(store, other)
        await store.erase_case(sample_erasure(case))
        assert await store.get_grant(grant.id) == replace(
            grant, case_id=case.id, patterns=None, granted_by=""
        )
        assert [usable.id for usable in await store.list_usable_grants("acme", "send_email", DAYBREAK)] == [
            other.id
        ]

    async def test_use_keys_are_deleted_when_their_grant_ends(self, store: Store) -> None:
        grant = sample_grant("")
        await store.update_case(sample_grant_use(await create_case_with_grants(store, grant), grant, "first"))
        await store.purge(grant.expires_at - timedelta(microseconds=1))
        assert await store.get_grant_use("acme", "first") is not None
        await store.purge(grant.expires_at)
        assert await store.get_grant_use("acme", "first") is None
