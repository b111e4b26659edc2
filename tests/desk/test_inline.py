"""Inline submit: a button pressed elsewhere, and every code it can come back with."""

from datetime import timedelta
from typing import Any

import pytest

from placet.desk import idempotency, random_values
from placet.errors import (
    ActionNotInline,
    AlreadyClosed,
    CaseExpired,
    CaseNotFound,
    InvalidAction,
    InvalidSubmission,
    InvalidToken,
    RequestError,
)
from placet.testing.desk import ACME, DeskForTests

pytestmark = pytest.mark.anyio

TRIP = {"items": [{"id": "train", "title": "Train to Ghent"}, {"id": "room", "title": "Canal Loft"}]}


async def test_a_pressed_button_completes_a_case_that_nobody_opened(kit: DeskForTests) -> None:
    opened = await kit.open("confirmation", context=TRIP, inline_actions=["confirm", "cancel"])
    kit.clock.advance(timedelta(minutes=5))
    receipt = await kit.human(opened).press("confirm")
    assert (receipt.status, receipt.case_id, receipt.completed_at) == ("completed", opened.id, kit.clock())
    polled = await kit.poll(opened.id)
    assert polled["result"] == {"action": "confirm", "data": {"confirmed_items": ["train", "room"]}}
    assert "opened_at" not in polled


async def test_submitted_by_is_context_and_never_identity(kit: DeskForTests) -> None:
    """Ruling 13."""
    opened = await kit.open(inline_actions=["approve"])
    await kit.human(opened).press("approve")
    polled = await kit.poll(opened.id)
    assert "responded_by" not in polled
    assert polled["submission_context"] == {
        "mode": "inline_submit",
        "submitted_via": "telegram_inline_button",
        "submitted_by": {"platform": "telegram", "platform_user_id": "42", "display_name": "Ada"},
    }
    assert [event.actor for event in await kit.desk.list_events(opened.id)] == ["key:acme", "inline:telegram"]


async def test_an_inline_cancel_is_a_decision_and_not_a_withdrawal(kit: DeskForTests) -> None:
    """Ruling 5."""
    opened = await kit.open("confirmation", context=TRIP, inline_actions=["confirm", "cancel"])
    await kit.human(opened).press("cancel")
    polled = await kit.poll(opened.id)
    assert (polled["status"], polled["result"]["action"]) == ("completed", "cancel")


async def press_refused(
    kit: DeskForTests, error: type[RequestError], action: str = "approve", data: Any = None, **fields: Any
) -> RequestError:
    """The refusal of this button on an approval that can be approved inline, which stays open."""
    opened = await kit.open(**{"inline_actions": ["approve"]} | fields)
    with pytest.raises(error) as refusal:
        await kit.human(opened).press(action, data)
    assert refusal.value.details["case_id"] == opened.id
    assert (await kit.poll(opened.id))["status"] == "pending"
    return refusal.value


async def test_page_only_action_is_refused_with_the_review_link(kit: DeskForTests) -> None:
    for action in ("reject", "edit"):
        refusal = await press_refused(kit, ActionNotInline, action, {"feedback": "x"})
        assert (refusal.status, refusal.code) == (403, "action_not_inline")
        url = refusal.details["review_url"]
        assert url == f"https://placet.example/review/{refusal.details['case_id']}"


async def test_empty_inline_actions_allow_no_inline_answer(kit: DeskForTests) -> None:
    """Ruling 8."""
    opened = await kit.open(inline_actions=[])
    assert {"submit_url", "submit_token", "inline_actions"}.isdisjoint(opened.hitl)


async def test_an_action_of_another_type_is_refused_by_name(kit: DeskForTests) -> None:
    refusal = await press_refused(kit, InvalidAction, "confirm")
    assert (refusal.status, refusal.code) == (400, "invalid_action")
    assert "'confirm'" in refusal.message


async def test_data_that_does_not_fit_is_refused(kit: DeskForTests) -> None:
    for data in ({"surprise": 1}, {"edits": {"title": "x"}}, {"feedback": 7}, {"feedback": "\x00"}):
        refusal = await press_refused(kit, InvalidSubmission, data=data)
        assert (refusal.status, refusal.code) == (400, "invalid_submission")


async def test_a_second_press_is_told_that_the_first_stands(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve", "reject"])
    human = kit.human(opened)
    await human.press("approve")
    with pytest.raises(AlreadyClosed) as refusal:
        await human.press("reject")
    assert (refusal.value.status, refusal.value.code) == (409, "duplicate_submission")
    assert (await kit.poll(opened.id))["result"]["action"] == "approve"


async def test_a_withdrawn_case_takes_no_answer(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve"])
    await kit.desk.cancel(opened.id, ACME, reason="changed our minds")
    with pytest.raises(AlreadyClosed):
        await kit.human(opened).press("approve")
    assert (await kit.poll(opened.id))["status"] == "cancelled"


async def test_a_late_press_is_late_even_before_the_sweep(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve"], timeout="1h")
    kit.clock.advance(timedelta(hours=1))
    with pytest.raises(CaseExpired) as refusal:
        await kit.human(opened).press("approve")
    assert (refusal.value.status, refusal.value.code) == (410, "case_expired")
    await kit.sweep.run_once()
    with pytest.raises(CaseExpired):
        await kit.human(opened).press("approve")
    assert "result" not in await kit.poll(opened.id)


async def test_the_last_moment_is_still_in_time(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve"], timeout="1h")
    kit.clock.advance(timedelta(hours=1) - timedelta(microseconds=1))
    assert (await kit.human(opened).press("approve")).status == "completed"


async def test_an_unknown_or_erased_case_is_not_found(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve"])
    human = kit.human(opened)
    await human.press("approve")
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    with pytest.raises(CaseNotFound):
        await human.press("approve")
    human.case_id = "review_unknown"
    with pytest.raises(CaseNotFound):
        await human.press("approve")


@pytest.mark.parametrize("token", [None, "", "wrong", "\ud800", "t" * 100_000])
async def test_a_wrong_token_answers_nothing(kit: DeskForTests, token: str | None) -> None:
    opened = await kit.open(inline_actions=["approve"])
    human = kit.human(opened)
    human.submit_token = token
    with pytest.raises(InvalidToken) as refusal:
        await human.press("approve")
    assert (refusal.value.status, refusal.value.code) == (401, "invalid_token")
    assert (await kit.poll(opened.id))["status"] == "pending"


async def test_every_crossing_of_tokens_is_refused(kit: DeskForTests) -> None:
    """Ruling 9: three tokens, three purposes."""
    opened = await kit.open(inline_actions=["approve"])
    other = await kit.open(inline_actions=["approve"])
    api_key = random_values.generate_api_key()
    human, stranger = kit.human(opened), kit.human(other)
    for token in (human.token, api_key, stranger.submit_token, stranger.token):
        crossing = kit.human(opened)
        crossing.submit_token = token
        with pytest.raises(InvalidToken):
            await crossing.press("approve")
    for token in (human.submit_token, api_key, stranger.token, stranger.submit_token):
        with pytest.raises(InvalidToken):
            await kit.desk.admit(opened.id, token or "")
    assert (await kit.poll(opened.id))["status"] == "pending"


async def test_a_case_by_link_only_has_no_token_that_answers_it(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=None)
    human = kit.human(opened)
    for token in (None, human.token, random_values.generate_token()):
        human.submit_token = token
        with pytest.raises(InvalidToken):
            await human.press("approve")


async def test_the_same_key_and_body_again_get_the_same_receipt(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve", "reject"])
    human = kit.human(opened)
    digest = idempotency.digest(opened.id, "key-1", b'{"action":"approve"}')
    first = await human.press("approve", replay_digest=digest)
    kit.clock.advance(timedelta(hours=1))
    assert await human.press("approve", replay_digest=digest) == first
    kit.clock.advance(timedelta(days=8))
    assert await human.press("approve", replay_digest=digest) == first
    assert len(await kit.desk.list_events(opened.id)) == 2


async def test_the_same_key_with_another_body_is_a_second_answer(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve", "reject"])
    human = kit.human(opened)
    await human.press("approve", replay_digest=idempotency.digest(opened.id, "key-1", b"approve"))
    with pytest.raises(AlreadyClosed):
        await human.press("reject", replay_digest=idempotency.digest(opened.id, "key-1", b"reject"))
    with pytest.raises(AlreadyClosed):
        await human.press("approve")


async def test_repeat_with_a_wrong_token_does_not_return_the_receipt(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve"])
    human = kit.human(opened)
    await human.press("approve", replay_digest="d")
    human.submit_token = human.token
    with pytest.raises(InvalidToken):
        await human.press("approve", replay_digest="d")
