"""The protocol's requirements for agents, tested against a foreign service."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.agent import Agent, AsyncAgent, ChannelBridge, Decided, Notice, PendingCases
from placet.errors import StillWaiting
from placet.ports.channel import Card, CaseClosure, SentMessage
from placet.testing.channel import RecordingChannel
from placet.testing.clock import DAYBREAK, FakeClock
from tests.cli.strange_service import Call, Reply, StrangeService, json_reply, strange_service
from tests.waiting import eventually

LONG_AGO = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVIDENCE = {
    "mode": "step_up",
    "required_for": ["browser_submit"],
    "requirements": {"any_of": [{"all_of": [{"proof_type": "proof_of_human"}]}]},
    "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
    "fallback": {"on_missing": "browser_review", "on_invalid": "browser_review"},
}


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


@pytest.fixture
def cases(tmp_path: Path) -> Iterator[PendingCases]:
    cases = PendingCases(tmp_path / "agent.db")
    yield cases
    cases.close()


def ignore_notice(notice: Notice) -> None:
    """Nobody looks."""


@pytest.mark.spec("6-agent-not-render")
@pytest.mark.parametrize("type", ["approval", "selection", "input", "confirmation", "escalation"])
def test_agent_never_opens_the_review_page(service: StrangeService, type: str) -> None:
    service.asks(type=type, context={"options": [{"id": "a", "title": "A"}]})
    service.answer_polls_with(status="completed", result={"action": "select", "data": {}})
    told: list[Notice] = []
    with Agent(tell=told.append) as agent:
        assert isinstance(agent.request("POST", f"{service.url}/act"), Decided)
    assert told[0].case.review_url == f"{service.url}/review/1"
    assert {call.path for call in service.calls} == {"/act", "/poll"}


@pytest.mark.spec("8-agent-heartbeat")
def test_resumed_agent_polls_once_per_run(service: StrangeService, cases: PendingCases) -> None:
    service.asks()
    service.answer_polls_with(status="pending")
    with Agent(tell=ignore_notice, pending=cases, max_wait=timedelta(0)) as agent:
        with pytest.raises(StillWaiting):
            agent.request("POST", f"{service.url}/act")
        for beat in (1, 2):
            ((_, stands),) = agent.resume_all()
            assert isinstance(stands, StillWaiting)
            assert [call.path for call in service.calls[1:]] == ["/poll"] * beat
        service.answer_polls_with(status="completed", result={"action": "confirm"})
        ((_, outcome),) = agent.resume_all()
    assert isinstance(outcome, Decided)
    assert cases.list_pending() == []


@pytest.mark.spec("10.4-agent-no-retry")
def test_rejected_request_is_not_repeated(service: StrangeService, cases: PendingCases) -> None:
    service.asks()
    service.answer_polls_with(status="completed", result={"action": "cancel"})
    told: list[Notice] = []
    with Agent(tell=told.append, pending=cases) as agent:
        outcome = agent.request("POST", f"{service.url}/act")
        assert isinstance(outcome, Decided)
        assert outcome.against
        assert agent.resume_all() == []
    assert [notice.name for notice in told] == ["requested", "ended"]
    assert [call.path for call in service.calls] == ["/act", "/poll"]


@pytest.mark.parametrize(
    ("poll", "ended"),
    [
        (
            {"status": "completed", "result": {"action": "a"}, "completed_at": "2026-01-02T03:04:05Z"},
            LONG_AGO,
        ),
        ({"status": "expired", "expired_at": "2026-01-02T04:04:05+01:00"}, LONG_AGO),
        ({"status": "cancelled", "cancelled_at": "2026-01-02T03:04:05Z"}, LONG_AGO),
        ({"status": "expired", "expired_at": "some time ago"}, DAYBREAK),
        ({"status": "expired"}, DAYBREAK),
    ],
)
def test_message_shows_the_time_of_the_decision(
    service: StrangeService, cases: PendingCases, poll: dict[str, Any], ended: datetime
) -> None:
    service.asks()
    service.answer_polls_with(**poll)
    channel = RecordingChannel()

    async def play() -> None:
        board = ChannelBridge(channel, cases, clock=lambda: DAYBREAK)
        async with AsyncAgent(tell=board.tell, pending=cases) as agent:
            await agent.request("POST", f"{service.url}/act")
        await board.aclose()

    asyncio.run(play())
    (sent,) = channel.sent
    assert sent.closure is not None
    assert sent.closure.at == ended


class RoundRecordingChannel(RecordingChannel):
    """Remembers the round of each card that was brought up to date."""

    def __init__(self) -> None:
        super().__init__()
        self.settled: list[int] = []

    async def mark_closed(self, ticket: SentMessage, card: Card, ended: CaseClosure) -> None:
        self.settled.append(card.round)


def test_every_message_about_a_case_names_the_same_round(
    service: StrangeService, cases: PendingCases
) -> None:
    clock = FakeClock()
    service.asks(previous_case_id="case-0", reminder_at=(clock() + timedelta(minutes=1)).isoformat())
    channel = RoundRecordingChannel()
    answers: Iterator[dict[str, Any]] = iter(
        [{"status": "pending"}, {"status": "completed", "result": {"action": "confirm"}}]
    )

    def poll(call: Call) -> Reply:
        clock.advance(timedelta(minutes=2))
        return json_reply({"case_id": "case-1", **next(answers)})

    service.replies["/poll"] = poll
    notices: list[Notice] = []

    async def play() -> None:
        board = ChannelBridge(channel, cases, clock=clock)

        async def tell(notice: Notice) -> None:
            notices.append(notice)
            await board.tell(notice)
            if notice.name == "reminder":
                clock.advance(timedelta(minutes=1))

        async with AsyncAgent(tell=tell, pending=cases, clock=clock) as agent:
            await agent.request("POST", f"{service.url}/act")
        await board.aclose()

    asyncio.run(play())
    rounds = [(notice.name, notice.round) for notice in notices]
    assert rounds == [("requested", 2), ("reminder", 2), ("ended", 2)]
    assert [one.card.round for one in channel.sent] == [2, 2]
    assert channel.settled == [2, 2]


def press_and_remind(
    service: StrangeService, cases: PendingCases, submit: Callable[[Call], Reply], **hitl: Any
) -> RecordingChannel:
    """What a messenger shows after a person pressed Confirm and then was reminded."""
    clock = FakeClock()
    offer: dict[str, Any] = {
        "submit_url": f"{service.url}/submit",
        "submit_token": "t" * 43,
        "inline_actions": ["confirm"],
    }
    service.asks(**offer, reminder_at=(clock() + timedelta(minutes=1)).isoformat(), **hitl)
    service.answer_polls_with(status="pending")
    service.replies["/submit"] = submit

    async def play() -> RecordingChannel:
        channel = RecordingChannel()
        board = ChannelBridge(channel, cases, answerers=["7"], clock=clock)
        async with AsyncAgent(tell=board.tell, pending=cases, clock=clock) as agent:
            following = asyncio.create_task(agent.request("POST", f"{service.url}/act"))
            listening = asyncio.create_task(board.listen())
            await channel.wait_until(lambda: len(channel.sent) == 1)
            channel.press("confirm")
            await channel.wait_until(lambda: len(channel.answers) == 1)
            # Followed only once the person has been told: a reminder that is due by then is none.
            await asyncio.to_thread(eventually, lambda: agent.nudge("case-1"))
            clock.advance(timedelta(minutes=1))
            agent.nudge("case-1")
            await channel.wait_until(lambda: len(channel.sent) == 2)
            for task in (following, listening):
                task.cancel()
            await asyncio.gather(following, listening, return_exceptions=True)
        await board.aclose()
        return channel

    return asyncio.run(play())


@pytest.mark.spec("0.7-agent-original-link")
def test_after_a_403_the_person_gets_the_original_review_link(
    service: StrangeService, cases: PendingCases
) -> None:
    refusal = {"error": "action_not_inline", "review_url": f"{service.url}/review/other"}
    channel = press_and_remind(service, cases, lambda call: json_reply(refusal, status=403))
    ((_, told),) = channel.answers
    assert told == "This answer cannot be given here. Open the link to answer."
    assert [one.card.review_url for one in channel.sent] == [f"{service.url}/review/1"] * 2


@pytest.mark.spec("0.8-agents-opaque")
def test_agent_sends_no_evidence(service: StrangeService, cases: PendingCases) -> None:
    bodies: list[dict[str, Any]] = []

    def demand(call: Call) -> Reply:
        bodies.append(json.loads(call.body))
        return json_reply({"error": "verification_required"}, status=403)

    channel = press_and_remind(service, cases, demand, verification_policy=EVIDENCE)
    (body,) = bodies
    assert body == {
        "action": "confirm",
        "submitted_via": "x-recording_button",
        "submitted_by": {"platform": "x-recording", "platform_user_id": "7", "display_name": "Ada"},
    }
    assert channel.answers[0][1] == "This answer cannot be given here. Open the link to answer."
