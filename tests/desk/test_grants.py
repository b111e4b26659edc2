"""Grants: made with the answer or not at all, spent once per call, revoked for good, and all on record."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.cases.events import find_broken_link
from placet.cases.grant import RETRY_WITHIN, Grant
from placet.desk.answer import Answer
from placet.desk.grants import GrantService
from placet.errors import (
    AlreadyClosed,
    CaseNotFound,
    InvalidSubmission,
    Unavailable,
    ValidationFailed,
)
from placet.ports.case_store import CaseUpdate
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.protocol.poll import RespondedBy, Status
from placet.stores.sqlite import SqliteStore
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.clock import FakeClock
from placet.testing.desk import ACME, ANONYMOUS, OTHER, DeskForTests, create_desk_for_tests
from tests.desk.granting import (
    CONTEXT,
    MAIL,
    LenientReviewType,
    answer_with,
    call,
    create_grant,
    get_granting_case,
    make_grant_service,
    open_tool_call_case,
)

pytestmark = pytest.mark.anyio
ADMIN = Principal(name="boss", scopes=frozenset({"admin"}))
TICK = timedelta(microseconds=1)


@pytest.fixture
def kit(store: Store) -> DeskForTests:
    return create_desk_for_tests(store=store, review_types={"approval": LenientReviewType()})


async def list_grant_events(kit: DeskForTests, grant: Grant) -> list[tuple[str, str, dict[str, Any]]]:
    events = await kit.store.list_events(grant.case_id)
    assert find_broken_link(events, head=(await get_granting_case(kit, grant)).chain) is None
    return [(one.type, one.actor, msgspec.json.decode(one.data or b"{}")) for one in events]


async def test_an_answer_on_the_page_gives_a_grant_and_says_who_gave_it(kit: DeskForTests) -> None:
    opened = await open_tool_call_case(kit)
    human = kit.human(opened)
    _, link = await kit.desk.admit(opened.id, human.token)
    answer = Answer(
        action="approve",
        data=answer_with(),
        path="browser_submit",
        actor=f"link:{link[:12]}",
        responded_by=RespondedBy(name="Ada", email="ada@acme.example"),
    )
    await kit.desk.answer(opened.id, answer)
    (grant,) = await kit.store.list_grants("acme")
    assert (grant.tool, grant.agent, grant.call_id, grant.uses) == ("send_email", "mailer", "call_1", 5)
    assert grant.expires_at == kit.clock() + timedelta(hours=1)
    assert grant.granted_by == "ada@acme.example"
    *_, given, completed = await list_grant_events(kit, grant)
    assert given[:2] == ("grant.given", f"link:{link[:12]}")
    assert given[2]["grant"]["granted_by"] == "ada@acme.example"
    assert given[2]["grant"]["patterns"] == grant.patterns
    assert completed[0] == "review.completed"
    assert completed[2]["result"]["data"]["grants"] == answer_with()["grants"]


async def test_someone_the_server_does_not_know_is_named_by_their_link(kit: DeskForTests) -> None:
    assert (await create_grant(kit)).granted_by.startswith("link:")


async def test_a_refused_answer_gives_nothing(kit: DeskForTests) -> None:
    opened = await open_tool_call_case(kit)
    human = kit.human(opened)
    with pytest.raises(InvalidSubmission):
        await human.answer("approve", answer_with(uses=0))
    with pytest.raises(InvalidSubmission, match="high risk"):
        await human.answer("approve", answer_with(call_id="call_2", patterns={"table": {"exact": "users"}}))
    assert (await kit.poll(opened.id))["status"] == "pending"
    await human.answer("approve", {"decisions": {}})
    with pytest.raises(AlreadyClosed):
        await human.answer("approve", answer_with())
    assert list(await kit.store.list_grants(None)) == []


async def test_a_button_cannot_give_a_grant_nor_can_the_agent_behind_it(kit: DeskForTests) -> None:
    opened = await open_tool_call_case(kit)
    with pytest.raises(InvalidSubmission, match="review page only"):
        await kit.human(opened).press("approve", answer_with())
    assert (await kit.poll(opened.id))["status"] == "pending"
    assert list(await kit.store.list_grants(None)) == []


async def test_case_without_tool_calls_creates_no_grant(kit: DeskForTests) -> None:
    opened = await kit.open(context={"draft": "Hello"})
    await kit.human(opened).answer("approve", answer_with())
    assert list(await kit.store.list_grants(None)) == []


async def test_grant_covers_its_number_of_calls(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit, uses=2), make_grant_service(kit)
    left = [await grants.use(call(number), ACME) for number in (1, 2, 3)]
    assert [one and (one.id, one.uses_left) for one in left] == [(grant.id, 1), (grant.id, 0), None]
    kept = await kit.store.get_grant(grant.id)
    assert kept is not None
    assert kept.state(kit.clock()) == "used_up"


async def test_every_use_is_logged_with_its_call(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit), make_grant_service(kit)
    await grants.use(call(7), ACME)
    name, actor, data = (await list_grant_events(kit, grant))[-1]
    assert (name, actor, data["grant_id"], data["used"]) == ("grant.used", "key:acme", grant.id, 1)
    assert data["call"]["arguments"] == MAIL
    assert (data["call"]["id"], data["call"]["tool"]) == ("call_7", "send_email")
    assert (data["call"]["agent"], data["call"]["thread_id"]) == ("mailer", "thread")
    assert (await get_granting_case(kit, grant)).status is Status.COMPLETED


async def test_large_arguments_are_logged_by_digest(kit: DeskForTests) -> None:
    text = "x" * 5000
    context = {**CONTEXT, "tool_calls": [{"id": "call_1", "name": "print", "arguments": {"text": text}}]}
    opened = await kit.open(context=context)
    asked = answer_with(patterns={"text": {"glob": "**xxx"}})
    with pytest.raises(InvalidSubmission, match="nearly"):
        await kit.human(opened).answer("approve", answer_with(patterns={"text": {"glob": "**"}}))
    await kit.human(opened).answer("approve", asked)
    (grant,) = await kit.store.list_grants("acme")
    assert await make_grant_service(kit).use(call(tool="print", arguments={"text": text}), ACME) is not None
    logged = (await list_grant_events(kit, grant))[-1][2]["call"]
    assert "arguments" not in logged
    assert len(logged["digest"]) == 64


async def test_repeated_call_is_counted_once(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit, uses=1), make_grant_service(kit)
    first = await grants.use(call(), ACME)
    again = await grants.use(call(), ACME)
    assert first == again
    assert again is not None
    assert again.id == grant.id
    assert await grants.use(call(2), ACME) is None


async def test_a_key_that_is_used_again_much_later_covers_nothing(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit), make_grant_service(kit)
    await grants.use(call(), ACME)
    kit.clock.advance(RETRY_WITHIN - TICK)
    assert await grants.use(call(), ACME) is not None
    kit.clock.advance(TICK)
    assert await grants.use(call(), ACME) is None
    kept = await kit.store.get_grant(grant.id)
    assert kept is not None
    assert kept.used == 1


async def test_a_key_names_one_call_only(kit: DeskForTests) -> None:
    await create_grant(kit)
    grants = make_grant_service(kit)
    await grants.use(call(), ACME)
    for other in ({"arguments": MAIL | {"to": "eve@acme.example"}}, {"id": "call_9"}, {"agent": "x"}):
        with pytest.raises(ValidationFailed, match="was used for another call"):
            await grants.use(call(**other), ACME)


async def test_a_counted_use_no_longer_holds_once_the_grant_is_revoked_or_over(kit: DeskForTests) -> None:
    grants = make_grant_service(kit)
    revoked = await create_grant(kit)
    await grants.use(call(1), ACME)
    await grants.revoke(revoked.id, ACME)
    assert await grants.use(call(1), ACME) is None
    await create_grant(kit)
    await grants.use(call(2), ACME)
    kit.clock.advance(timedelta(hours=1))
    assert await grants.use(call(2), ACME) is None


async def test_a_grant_ends_at_its_moment(kit: DeskForTests) -> None:
    await create_grant(kit)
    grants = make_grant_service(kit)
    kit.clock.advance(timedelta(hours=1) - TICK)
    assert await grants.use(call(1), ACME) is not None
    kit.clock.advance(TICK)
    assert await grants.use(call(2), ACME) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "send_mail"},
        {"agent": None},
        {"agent": "other"},
        {"arguments": {"to": "eve@evil.example", "copies": 1}},
        {"arguments": MAIL | {"copies": True}},
        {"arguments": MAIL | {"copies": 1.0}},
        {"arguments": MAIL | {"bcc": "eve@evil.example"}},
        {"arguments": {"to": {"$glob": "*"}, "copies": 1}},
        {"arguments": {}},
    ],
)
async def test_other_calls_are_not_covered(kit: DeskForTests, changes: dict[str, Any]) -> None:
    grant = await create_grant(kit)
    before = await get_granting_case(kit, grant)
    assert await make_grant_service(kit).use(call(**changes), ACME) is None
    assert await get_granting_case(kit, grant) == before


async def test_nobody_elses_grant_can_be_used_seen_or_revoked(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit), make_grant_service(kit)
    for stranger in (OTHER, ANONYMOUS):
        assert await grants.use(call(), stranger) is None
        assert list(await grants.list_grants(stranger, before=None, limit=50)) == []
        with pytest.raises(CaseNotFound):
            await grants.get_owned_grant(grant.id, stranger)
        with pytest.raises(CaseNotFound):
            await grants.revoke(grant.id, stranger)
    assert await grants.use(call(), ADMIN) is None


async def test_an_administrator_sees_and_revokes_everyones(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit), make_grant_service(kit)
    assert [one.id for one in await grants.list_grants(ADMIN, before=None, limit=50)] == [grant.id]
    assert (await grants.revoke(grant.id, ADMIN)).revoked_by == "key:boss"


async def test_ended_grants_remain_listed(kit: DeskForTests) -> None:
    grants = make_grant_service(kit)
    used_up, revoked, _ = await create_grant(kit, uses=1), await create_grant(kit), await create_grant(kit)
    await grants.revoke(revoked.id, ACME)
    assert (await grants.use(call(), ACME)) is not None
    kit.clock.advance(timedelta(hours=2))
    listed = await grants.list_grants(ACME, before=None, limit=50)
    assert [one.state(kit.clock()) for one in listed] == ["expired", "revoked", "used_up"]
    assert used_up.id == listed[-1].id


async def test_a_revocation_stands_in_the_log_once(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit), make_grant_service(kit)
    first = await grants.revoke(grant.id, ACME)
    assert await grants.revoke(grant.id, ACME) == first
    assert await grants.revoke_as(grant.id, "operator") == first
    revocations = [event for event in await list_grant_events(kit, grant) if event[0] == "grant.revoked"]
    assert [(actor, data["grant_id"]) for _, actor, data in revocations] == [("key:acme", grant.id)]
    with pytest.raises(CaseNotFound):
        await grants.revoke_as("grant_unknown", "operator")


async def test_of_many_calls_at_once_only_so_many_as_are_left_win(kit: DeskForTests) -> None:
    grant = await create_grant(kit, uses=5)
    desks = [make_grant_service(kit), make_grant_service(kit)]  # two desks on one store are two processes
    async with asyncio.timeout(60):
        won = await asyncio.gather(
            *(desks[n % 2].use(call(n), ACME) for n in range(64)), return_exceptions=True
        )
    covered = [one for one in won if isinstance(one, Grant)]
    assert len(covered) == 5
    assert sorted(one.uses_left for one in covered) == [0, 1, 2, 3, 4]
    assert all(one is None or isinstance(one, Grant | Unavailable) for one in won)
    kept = await kit.store.get_grant(grant.id)
    assert kept is not None
    assert kept.used == 5
    assert [event[0] for event in await list_grant_events(kit, grant)].count("grant.used") == 5


async def test_two_processes_that_want_the_last_use_do_not_both_get_it(tmp_path: Path) -> None:
    one, other = [await SqliteStore.open(tmp_path / "cases.db") for _ in range(2)]
    kit = create_desk_for_tests(store=one, review_types={"approval": LenientReviewType()})
    both = [make_grant_service(kit), GrantService(store=other, clock=kit.clock, keep_for=timedelta(days=30))]
    for round in range(5):
        await create_grant(kit, uses=1)
        async with asyncio.timeout(60):
            won = await asyncio.gather(
                *(desk.use(call(n, key=f"{round}/{n}"), ACME) for n, desk in enumerate(both * 4))
            )
        assert sum(grant is not None for grant in won) == 1
    for store in (one, other):
        await store.aclose()


async def test_one_call_asked_for_by_many_at_once_counts_once(kit: DeskForTests) -> None:
    grant = await create_grant(kit, uses=5)
    desks = [make_grant_service(kit), make_grant_service(kit)]
    async with asyncio.timeout(60):
        won = await asyncio.gather(*(desks[n % 2].use(call(), ACME) for n in range(16)))
    assert {one and one.id for one in won} == {grant.id}
    kept = await kit.store.get_grant(grant.id)
    assert kept is not None
    assert kept.used == 1


async def test_revocation_during_a_use_wins(store: Store) -> None:
    kit = create_desk_for_tests(store=store, review_types={"approval": LenientReviewType()})
    grant, grants = await create_grant(kit), make_grant_service(kit)
    async with asyncio.timeout(60):
        await asyncio.gather(*(grants.use(call(n), ACME) for n in range(3)), grants.revoke(grant.id, ACME))
    assert await grants.use(call(9), ACME) is None
    names = [event[0] for event in await list_grant_events(kit, grant)]
    assert "grant.used" not in names[names.index("grant.revoked") :]


class RevokingStore(InMemorySqliteStore):
    """Someone else revokes between looking and spending."""

    revoke: Any = None

    async def list_usable_grants(self, owner: str, tool: str, now: Any) -> Any:
        found = await super().list_usable_grants(owner, tool, now)
        if found and self.revoke is not None:
            hurry, self.revoke = self.revoke, None
            await hurry(found[0].id)
        return found


async def test_a_grant_revoked_between_looking_and_spending_is_not_spent() -> None:
    store = RevokingStore()
    kit = create_desk_for_tests(store=store, review_types={"approval": LenientReviewType()})
    await create_grant(kit)
    grants, other = make_grant_service(kit), make_grant_service(kit)
    store.revoke = lambda grant_id: other.revoke_as(grant_id, "operator")
    assert await grants.use(call(), ACME) is None


async def test_a_grant_that_ends_between_looking_and_spending_is_not_spent() -> None:
    clock = FakeClock()
    store = RevokingStore()
    kit = create_desk_for_tests(store=store, clock=clock, review_types={"approval": LenientReviewType()})
    await create_grant(kit)

    async def dawdle(grant_id: str) -> None:
        clock.advance(timedelta(hours=1))

    store.revoke = dawdle
    assert await make_grant_service(kit).use(call(), ACME) is None


class RefusingStore(InMemorySqliteStore):
    """Every write of a use is refused."""

    async def update_case(self, commitment: CaseUpdate) -> None:
        if commitment.grant_use is not None:
            raise Unavailable()
        await super().update_case(commitment)


async def test_a_store_that_fails_covers_nothing() -> None:
    kit = create_desk_for_tests(store=RefusingStore(), review_types={"approval": LenientReviewType()})
    grant = await create_grant(kit)
    with pytest.raises(Unavailable):
        await make_grant_service(kit).use(call(), ACME)
    kept = await kit.store.get_grant(grant.id)
    assert kept is not None
    assert kept.used == 0


async def test_the_end_of_retention_ends_a_grant_and_erases_what_it_allowed(kit: DeskForTests) -> None:
    grant, grants = await create_grant(kit, **{"for": "7d"}), make_grant_service(kit)
    await grants.use(call(), ACME)
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    kept = await kit.store.get_grant(grant.id)
    assert kept is not None
    assert (kept.patterns, kept.granted_by) == (None, "")
    assert all("arguments" not in event[2] for event in await list_grant_events(kit, grant))


async def test_the_demo_has_grants_of_its_own(kit: DeskForTests) -> None:
    grant = await create_grant(kit, principal=ANONYMOUS)
    assert (await make_grant_service(kit).use(call(), ANONYMOUS)) is not None
    assert await make_grant_service(kit).use(call(2), ACME) is None
    assert grant.owner == ""
