"""Questions that offer too little: no inline actions, no options, and reminders at the last second."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from placet.errors import InvalidSelection, InvalidToken, ValidationFailed
from placet.testing.desk import DeskForTests

pytestmark = pytest.mark.anyio

FLIGHTS = [{"id": "f1", "title": "09:40 to Lisbon"}, {"id": "f2", "title": "13:05 to Lisbon"}]


async def test_an_empty_list_of_inline_actions_brings_no_token(kit: DeskForTests) -> None:
    opened = await kit.open("confirmation", inline_actions=[])
    assert {"submit_url", "submit_token", "inline_actions"}.isdisjoint(opened.hitl)
    for token in (None, "", "x" * 43):
        with pytest.raises(InvalidToken):
            await kit.desk.require_submitter(opened.id, token)


async def test_options_in_a_preview_are_the_options_of_a_selection(kit: DeskForTests) -> None:
    opened = await kit.open("selection", context={"options_preview": FLIGHTS, "total": 2})
    with pytest.raises(InvalidSelection, match="not offered"):
        await kit.human(opened).answer("select", {"selected": ["anything at all"]})
    case = await kit.human(opened).answer("select", {"selected": ["f2"]})
    assert case.decision is not None
    assert case.decision.result.data == {"selected": ["f2"]}
    assert "warnings" not in msgspec.json.decode(opened.body).get("data", {})


async def test_full_options_come_before_their_preview(kit: DeskForTests) -> None:
    more = [*FLIGHTS, {"id": "f3", "title": "21:15 to Lisbon"}]
    opened = await kit.open("selection", context={"options_preview": FLIGHTS, "options": more})
    case = await kit.human(opened).answer("select", {"selected": ["f3"]})
    assert case.decision is not None


@pytest.mark.parametrize("preview", [[], [7], [{"title": "no id"}], [{"id": ""}], ["a", "a"]])
async def test_a_preview_that_offers_nothing_is_refused(kit: DeskForTests, preview: Any) -> None:
    with pytest.raises(ValidationFailed, match="options_preview"):
        await kit.open("selection", context={"options_preview": preview})


@pytest.mark.parametrize("context", [{}, {"options_preview": "see the page"}, {"total": 3, "options": None}])
async def test_a_selection_without_options_warns_the_service(
    kit: DeskForTests, context: dict[str, Any]
) -> None:
    opened = await kit.open("selection", context=context)
    assert msgspec.json.decode(opened.body)["data"]["warnings"] == [
        "context.options: is missing. The reviewer gets a text box that accepts anything."
    ]


async def test_other_questions_do_not_warn(kit: DeskForTests) -> None:
    for type in ("approval", "selection", "input", "confirmation", "escalation", "x-other"):
        opened = await kit.open(type)
        assert "warnings" not in msgspec.json.decode(opened.body).get("data", {}), type


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (timedelta(hours=23, minutes=59, seconds=58), "24 hours"),
        (timedelta(hours=24), "24 hours"),
        (timedelta(hours=2, minutes=40), "2 hours"),
        (timedelta(minutes=119, seconds=59), "2 hours"),
        (timedelta(minutes=59, seconds=29), "59 minutes"),
        (timedelta(seconds=59), "1 minute"),
        (timedelta(seconds=5), "0 minutes"),
    ],
)
async def test_a_reminder_two_seconds_late_does_not_lose_an_hour(
    kit: DeskForTests, left: timedelta, said: str
) -> None:
    wait = timedelta(hours=48) - left
    opened = await kit.open(timeout="48h", reminder_at=(kit.clock() + wait).isoformat())
    kit.clock.advance(wait)
    await kit.sweep.run_once()
    event = (await kit.desk.list_events(opened.id))[-1]
    assert msgspec.json.decode(event.data or b"")["message"] == f"Review expires in {said}"
