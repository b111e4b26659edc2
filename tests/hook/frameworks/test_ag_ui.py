"""AG-UI clients see what waits as interrupts, and their resume entries decide it."""

import json
from datetime import timedelta
from typing import Any

import jsonschema
import pytest
from ag_ui.core import EventType, ResumeEntry, RunAgentInput, RunFinishedEvent
from ag_ui.encoder import EventEncoder

from placet.errors import AlreadyDecided, InvalidFeedback
from placet.hook import (
    Approver,
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    Replace,
    Run,
    ToolCall,
    ToolConfig,
    Wait,
)
from placet.hook.frameworks.ag_ui import build_interrupts, build_run_error, build_run_finished, read_resume
from placet.testing.clock import FakeClock

PAY = ToolCall(id="c1", name="pay", arguments={"to": "Ann", "amount": 3})
ASK = ToolCall(id="c2", name="ask_user", arguments={"question": "Which colour?"})
LOOK = ToolCall(id="c3", name="look", arguments={})
TURN = (PAY, ASK, LOOK)
SCHEMAS: dict[str, Any] = {
    "pay": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["to", "amount"],
    }
}
ANSWERS = {
    "c1": {"approved": True, "editedArgs": {"to": "Bo", "amount": 2}},
    "c2": {"answer": "blue"},
}


class Desk:
    """An approver whose turn waits, and the conversation with an AG-UI client about it."""

    def __init__(self, **config: Any) -> None:
        self.clock = FakeClock()
        hook = HumanInTheLoopHook(
            {
                "pay": ToolConfig(description="Pays somebody", timeout=timedelta(hours=1), **config),
                "ask_user": ToolConfig(allowed_decisions=("respond",)),
            }
        )
        self.approver = Approver(hook, saver=MemorySaver(clock=self.clock), clock=self.clock)
        asked = self.ask(PAY)
        assert isinstance(asked, Wait)
        self.stopped = asked.interruption

    def ask(self, call: ToolCall) -> Any:
        return self.approver.ask("t/1", call, turn=TURN, schemas=SCHEMAS)

    def waiting(self) -> InterruptionMetadata:
        waiting = self.approver.waiting("t/1")
        assert waiting is not None
        return waiting

    def answer(self, entries: Any) -> InterruptionMetadata:
        [answered] = read_resume(entries, [self.waiting()])
        return self.approver.answer("t/1", answered)

    def entries(self, **payloads: Any) -> list[ResumeEntry]:
        given = {**ANSWERS, **payloads}
        return [
            ResumeEntry(interrupt_id=f"{self.stopped.id}:{each}", status="resolved", payload=payload)
            for each, payload in given.items()
        ]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_run_ends_with_an_interrupt_for_each_waiting_call(desk: Desk) -> None:
    event = build_run_finished(desk.stopped, thread_id="t", run_id="r1")
    assert event.type == EventType.RUN_FINISHED
    sent = json.loads(EventEncoder().encode(event).removeprefix("data: "))
    assert RunFinishedEvent.model_validate(sent) == event
    pay, ask = sent["outcome"]["interrupts"]
    assert sent["outcome"]["type"] == "interrupt"
    assert (pay["reason"], pay["toolCallId"], pay["message"]) == ("tool_call", "c1", "Pays somebody")
    assert pay["expiresAt"] == (desk.clock() + timedelta(hours=1)).isoformat()
    assert pay["metadata"]["placet"]["arguments"] == PAY.arguments
    assert pay["responseSchema"]["properties"]["approved"] == {"type": "boolean"}
    assert pay["responseSchema"]["properties"]["editedArgs"]["required"] == ["to", "amount"]
    assert ask["message"] == "May ask_user run?"
    assert set(ask["responseSchema"]["properties"]) == {"answer"}
    assert pay["id"] != ask["id"]


def test_a_client_that_may_not_edit_is_not_offered_it() -> None:
    [pay, _] = build_interrupts(Desk(allowed_decisions=("approve", "reject")).stopped)
    assert pay.response_schema is not None
    assert "editedArgs" not in pay.response_schema["properties"]


def test_the_answers_of_a_client_decide_the_calls(desk: Desk) -> None:
    sent = {
        "threadId": "t",
        "runId": "r2",
        "messages": [],
        "resume": [each.model_dump(by_alias=True) for each in desk.entries()],
    }
    desk.answer(RunAgentInput.model_validate(sent).resume)
    assert desk.ask(PAY) == Run(call=ToolCall(id="c1", name="pay", arguments={"to": "Bo", "amount": 2}))
    assert desk.ask(ASK) == Replace(result="blue")


def test_an_abandoned_interrupt_rejects_its_call(desk: Desk) -> None:
    entries = desk.entries()
    entries[0] = ResumeEntry(interrupt_id=entries[0].interrupt_id, status="cancelled")
    desk.answer(entries)
    refused = desk.ask(PAY)
    assert isinstance(refused, Replace)
    assert refused.reason == "rejected"


def test_a_rejection_has_a_reason(desk: Desk) -> None:
    desk.answer(desk.entries(c1={"approved": False, "reason": "too much"}))
    assert "too much" in desk.ask(PAY).result


@pytest.mark.parametrize(
    "payload",
    [
        None,
        True,
        "approve",
        {},
        {"approved": 1},
        {"approved": "true"},
        {"approved": None},
        {"approved": True, "reason": "x"},
        {"approved": True, "editedArgs": None},
        {"approved": True, "editedArgs": []},
        {"approved": True, "editedArgs": {"to": "Bo"}},
        {"approved": True, "editedArgs": {"to": 1, "amount": 1}},
        {"approved": False, "editedArgs": {"to": "Bo", "amount": 1}},
        {"approved": False, "reason": 5},
        {"approved": True, "answer": "x"},
        {"answer": "done"},
        {"answer": None},
        {"approved": True, "decided_by": "root"},
    ],
    ids=str,
)
def test_a_payload_that_does_not_match_stores_nothing(desk: Desk, payload: Any) -> None:
    [pay, _] = build_interrupts(desk.stopped)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(payload, pay.response_schema or {})
    with pytest.raises(InvalidFeedback):
        desk.answer(desk.entries(c1=payload))
    assert len(desk.waiting().undecided) == 2
    assert isinstance(desk.ask(PAY), Wait)


@pytest.mark.parametrize("payload", [ANSWERS["c1"], {"approved": True}, {"approved": False}], ids=str)
def test_a_payload_that_matches_is_taken(desk: Desk, payload: Any) -> None:
    [pay, _] = build_interrupts(desk.stopped)
    jsonschema.validate(payload, pay.response_schema or {})
    assert not desk.answer(desk.entries(c1=payload)).undecided


@pytest.mark.parametrize("wrong", ["missing", "none", "twice", "unknown", "other", "cancelled with payload"])
def test_every_open_interrupt_is_answered_once(desk: Desk, wrong: str) -> None:
    entries: Any = desk.entries()
    match wrong:
        case "missing":
            entries = entries[:1]
        case "none":
            entries = None
        case "twice":
            entries = [*entries, entries[0]]
        case "unknown":
            entries = [*entries, ResumeEntry(interrupt_id="x", status="cancelled")]
        case "other":
            entries = [each.model_copy(update={"interrupt_id": f"i9:c{n}"}) for n, each in enumerate(entries)]
        case _:
            entries[0] = entries[0].model_copy(update={"status": "cancelled"})
    with pytest.raises(InvalidFeedback) as refused:
        desk.answer(entries)
    error = build_run_error(refused.value)
    assert (error.type, error.code) == (EventType.RUN_ERROR, "invalid_feedback")
    assert len(desk.waiting().undecided) == 2


def test_the_same_answer_again_changes_nothing_and_another_one_is_refused(desk: Desk) -> None:
    first = desk.answer(desk.entries())
    assert desk.answer(desk.entries()) == first
    with pytest.raises(AlreadyDecided):
        desk.answer(desk.entries(c1={"approved": False}))
    assert desk.ask(PAY).call.arguments == {"to": "Bo", "amount": 2}


def test_an_answer_after_the_deadline_is_refused(desk: Desk) -> None:
    desk.clock.advance(timedelta(hours=2))
    with pytest.raises(InvalidFeedback, match="expired"):
        desk.answer(desk.entries())
    assert isinstance(desk.ask(PAY), Replace)


def test_interrupts_of_several_interruptions_are_answered_together(desk: Desk) -> None:
    other = Desk()
    event = build_run_finished(desk.stopped, other.stopped, thread_id="t", run_id="r")
    assert len({each.id for each in event.outcome.interrupts}) == 4  # type: ignore[union-attr]
    answered = read_resume([*desk.entries(), *other.entries()], [desk.waiting(), other.waiting()])
    assert [each.id for each in answered] == [desk.stopped.id, other.stopped.id]
    with pytest.raises(InvalidFeedback, match=other.stopped.id):
        read_resume(desk.entries(), [desk.waiting(), other.waiting()])
