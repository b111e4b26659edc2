"""Answering on the page: viewing, drafts, one answer, passing on, handing back."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from placet.cases.case import Case
from placet.cases.events import find_broken_link
from placet.desk.review_desk import MAX_LINKS
from placet.desk.reviewer_notes import MAX_NOTE_LENGTH
from placet.errors import (
    AlreadyClosed,
    CaseExpired,
    CaseNotFound,
    ContentChanged,
    InvalidAction,
    InvalidInput,
    InvalidSelection,
    InvalidSubmission,
    InvalidToken,
    PlacetError,
    ValidationFailed,
)
from placet.protocol.poll import Progress
from placet.testing.desk import ACME, DeskForTests

pytestmark = pytest.mark.anyio

ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "approval": ("reject", {"feedback": "not yet"}),
    "selection": ("select", {"selected": ["canal-loft"], "note": "the light"}),
    "confirmation": ("cancel", {"note": "wait"}),
    "escalation": ("abort", {"reason": "enough"}),
}


@pytest.mark.parametrize("type", ANSWERS)
async def test_every_type_takes_its_answer(kit: DeskForTests, type: str) -> None:
    opened = await kit.open(type)
    action, data = ANSWERS[type]
    await kit.human(opened).answer(action, data)
    polled = await kit.poll(opened.id)
    assert polled["status"] == "completed"
    assert polled["result"] == {"action": action, "data": data}
    assert polled["submission_context"] == {"mode": "browser_submit"}


async def test_a_form_is_judged_by_the_server(kit: DeskForTests) -> None:
    form = {"fields": [{"key": "age", "label": "Age", "type": "number", "required": True}]}
    opened = await kit.open("input", context={"form": form})
    human = kit.human(opened)
    for data in ({}, {"age": "old"}, {"age": 3, "extra": 1}):
        with pytest.raises(InvalidInput):
            await human.answer("submit", data)
    await human.answer("submit", {"age": 41})
    assert (await kit.poll(opened.id))["result"]["data"] == {"age": 41}


@pytest.mark.parametrize(
    ("type", "action", "data", "error"),
    [
        ("approval", "confirm", {}, InvalidAction),
        ("approval", "edit", {}, InvalidSubmission),
        ("approval", "approve", {"edits": {"subject": "x"}}, InvalidSubmission),
        ("selection", "select", {"selected": ["no-such-room"]}, InvalidSelection),
        ("selection", "select", {"selected": []}, InvalidSelection),
        ("confirmation", "confirm", {"confirmed_items": []}, InvalidSubmission),
        ("confirmation", "confirm", {}, InvalidSubmission),
        ("escalation", "skip", {"modified_params": {"a": 1}}, InvalidSubmission),
        ("x-seating-plan", "nonsense", {}, InvalidAction),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_case_stays_open(
    kit: DeskForTests, type: str, action: str, data: dict[str, Any], error: type[PlacetError]
) -> None:
    opened = await kit.open(type)
    with pytest.raises(error):
        await kit.human(opened).answer(action, data)
    assert (await kit.poll(opened.id))["status"] == "pending"


async def test_viewing_the_page_changes_nothing(kit: DeskForTests) -> None:
    """Ruling 4: link previews look at everything."""
    opened = await kit.open()
    before = await kit.desk.get_owned_case(opened.id, ACME)
    await kit.human(opened).look()
    assert await kit.desk.get_owned_case(opened.id, ACME) == before


async def test_first_reading_opens_the_case_once(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    first = await human.read()
    kit.clock.advance(timedelta(minutes=1))
    assert await human.read() == first
    assert (await kit.poll(opened.id))["opened_at"] == "2026-01-01T06:00:00Z"


async def test_form_draft_is_saved_reported_and_deleted_with_the_answer(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    await human.type({"feedback": "so far"}, progress=Progress(completed_fields=1, total_fields=2), step=1)
    draft = await kit.store.get_draft(opened.id)
    assert draft is not None
    assert (draft.values, draft.step) == ({"feedback": "so far"}, 1)
    polled = await kit.poll(opened.id)
    assert (polled["status"], polled["progress"]) == (
        "in_progress",
        {"completed_fields": 1, "total_fields": 2},
    )
    await human.answer("approve")
    assert await kit.store.get_draft(opened.id) is None
    assert "progress" not in await kit.poll(opened.id)


async def test_form_draft_never_reaches_the_log(kit: DeskForTests) -> None:
    opened = await kit.open()
    await kit.human(opened).type({"feedback": "my secret"}, progress=Progress(completed_fields=1))
    for event in await kit.desk.list_events(opened.id):
        assert b"secret" not in (event.data or b"")


async def test_saving_at_every_pause_does_not_fill_the_log(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    for length in range(20):
        await human.type({"feedback": "x" * length}, progress=Progress(completed_fields=min(length, 1)))
    assert len(await kit.desk.list_events(opened.id)) == 4


async def test_form_draft_after_the_end_is_not_saved(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    await human.answer("approve")
    with pytest.raises(AlreadyClosed):
        await human.type({"feedback": "too late"})
    assert await kit.store.get_draft(opened.id) is None


async def test_second_answer_is_refused(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    await human.answer("approve")
    for action in ("reject", "approve", "nonsense"):
        with pytest.raises(AlreadyClosed) as refusal:
            await human.answer(action)
        assert refusal.value.code == "duplicate_submission"
    assert (await kit.poll(opened.id))["result"]["action"] == "approve"


async def test_of_sixty_four_answers_at_once_one_wins(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve", "reject"], callback_url="https://agent.example/")
    human = kit.human(opened)

    async def attempt(number: int) -> str:
        action = ("approve", "reject")[number % 2]
        try:
            await (human.press(action) if number % 3 else human.answer(action))
        except AlreadyClosed as refusal:
            return refusal.code
        return action

    outcomes = Counter(await asyncio.gather(*(attempt(number) for number in range(64))))
    assert outcomes["duplicate_submission"] == 63
    (winner,) = set(outcomes) - {"duplicate_submission"}
    assert (await kit.poll(opened.id))["result"]["action"] == winner
    case = await kit.desk.get_owned_case(opened.id, ACME)
    events = await kit.desk.list_events(opened.id)
    assert [event.type for event in events].count("review.completed") == 1
    assert find_broken_link(events, head=case.chain) is None
    assert len(await kit.store.list_deliveries()) == 1


async def test_the_same_answer_at_once_under_one_key_is_one_answer(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    cases = await asyncio.gather(*(human.answer("approve", replay_digest="d") for _ in range(16)))
    assert len({case.version for case in cases}) == 1


async def test_an_answer_and_a_withdrawal_at_once_leave_one_end(kit: DeskForTests) -> None:
    for _ in range(10):
        opened = await kit.open()
        human = kit.human(opened)
        outcomes = await asyncio.gather(
            human.answer("approve"),
            kit.desk.cancel(opened.id, ACME, reason=None),
            return_exceptions=True,
        )
        assert sum(isinstance(one, Case) for one in outcomes) == 1
        assert sum(isinstance(one, AlreadyClosed) for one in outcomes) == 1


async def test_answer_after_the_deadline_is_refused_before_the_sweep(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="1h")
    human = kit.human(opened)
    kit.clock.advance(timedelta(hours=1))
    for attempt in (
        human.answer("approve"),
        human.read(),
        human.type({}),
        human.pass_on(),
        human.hand_back(),
        kit.desk.cancel(opened.id, ACME, reason=None),
    ):
        with pytest.raises(CaseExpired):
            await attempt
    case, _ = await human.look()
    assert case.decision is None


async def test_answer_with_another_offer_digest_is_refused(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    with pytest.raises(ContentChanged) as refusal:
        await human.answer("approve", shown="0" * 64)
    assert (refusal.value.status, refusal.value.code) == (409, "content_changed")
    assert (await kit.poll(opened.id))["status"] == "pending"
    await human.answer("approve")


async def test_after_the_end_the_first_answer_matters_more_than_what_was_shown(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    await human.answer("reject")
    with pytest.raises(AlreadyClosed) as refusal:
        await human.answer("approve", shown="0" * 64)
    assert refusal.value.code == "duplicate_submission"


async def test_a_passed_on_link_works_beside_the_first(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    colleague = await human.pass_on("you know this better")
    assert colleague.token != human.token
    assert (await colleague.look())[0] == (await human.look())[0]
    await colleague.answer("approve")
    events = await kit.desk.list_events(opened.id)
    assert [event.type for event in events] == ["review.created", "review.passed_on", "review.completed"]
    assert events[1].actor != events[2].actor
    assert colleague.token.encode() not in (events[1].data or b"")
    assert b"you know this better" in (events[1].data or b"")


async def test_number_of_passed_on_links_is_limited(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    for _ in range(MAX_LINKS - 1):
        await human.pass_on()
    with pytest.raises(ValidationFailed):
        await human.pass_on()
    await human.answer("approve")


async def test_a_link_of_another_case_opens_nothing(kit: DeskForTests) -> None:
    opened, other = await kit.open(), await kit.open()
    with pytest.raises(InvalidToken):
        await kit.desk.admit(opened.id, kit.human(other).token)
    with pytest.raises(CaseNotFound):
        await kit.desk.admit("review_unknown", kit.human(other).token)


async def test_handing_back_keeps_the_case_open(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    await human.hand_back("ask my colleague")
    polled = await kit.poll(opened.id)
    assert polled["status"] == "pending"
    assert "result" not in polled
    case = await human.answer("approve")
    with pytest.raises(AlreadyClosed):
        await human.hand_back("too late")
    assert [one.reason for one in case.handed_back] == ["ask my colleague"]


async def test_handing_back_ends_the_case_of_one_named_person(kit: DeskForTests) -> None:
    opened = await kit.open(only_reviewer="Ada")
    human = kit.human(opened)
    await human.hand_back("ask my colleague")
    polled = await kit.poll(opened.id)
    assert (polled["status"], polled["reason"]) == ("cancelled", "ask my colleague")
    with pytest.raises(AlreadyClosed):
        await human.answer("approve")


async def test_handing_back_and_passing_on_at_once_leave_the_case_open(kit: DeskForTests) -> None:
    for _ in range(10):
        opened = await kit.open(only_reviewer="Ada")
        human = kit.human(opened)
        colleague, handed = await asyncio.gather(human.pass_on(), human.hand_back(), return_exceptions=True)
        status = (await kit.poll(opened.id))["status"]
        assert (status == "cancelled") == isinstance(colleague, AlreadyClosed)
        assert isinstance(handed, Case)


@pytest.mark.parametrize("reason", ["x" * (MAX_NOTE_LENGTH + 1), "\x00", "\ud800"])
async def test_a_reason_that_cannot_be_kept_is_refused(kit: DeskForTests, reason: str) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    for attempt in (
        human.hand_back(reason),
        human.pass_on(reason),
        kit.desk.cancel(opened.id, ACME, reason=reason),
    ):
        with pytest.raises(ValidationFailed):
            await attempt
    assert (await kit.poll(opened.id))["status"] == "pending"


async def test_a_blank_reason_is_no_reason(kit: DeskForTests) -> None:
    opened = await kit.open()
    await kit.human(opened).hand_back("  \n")
    assert "reason" not in await kit.poll(opened.id)
