"""An exchange asks for the right things in the right order, whatever the policies say on each leg."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_1_0, Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.exchange import (
    Answered,
    AnswerFromTask,
    ExchangeEffect,
    ExchangeSteps,
    FindTasks,
    Forward,
    HoldListedQuestions,
    HoldMessage,
    HoldQuestion,
    Inspect,
    InspectEvents,
    LinkTask,
    Record,
    RewriteReply,
    TranslateCall,
    has_passed,
    pass_card,
    pass_event,
    pass_events,
    pass_observed_event,
    pass_reply,
    relay_call,
)
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.policy import MESSAGE_LEGS, Leg
from placet.relay.policy.verdict import PASS, UNWATCHED, PolicyVerdict
from placet.relay.task import Task, TaskStatus

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
CALL = A2ACall(
    dialect=RPC_1_0,
    operation="send",
    document={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}},
    rpc_id=1,
)
HELD = {"task": "held"}
REQUEST_LEGS, RESPONSE_LEGS = MESSAGE_LEGS[:2], MESSAGE_LEGS[2:]
OUTCOMES = (Outcome.PASS, Outcome.MASK, Outcome.HOLD, Outcome.BLOCK)


def build_reply(state: str = "TASK_STATE_WORKING", text: str = "", operation: Operation = "send") -> A2AReply:
    task = {"id": "t", "contextId": "c", "status": {"state": state}, "text": text}
    return A2AReply(
        dialect=RPC_1_0,
        operation=operation,
        document={"jsonrpc": "2.0", "id": 1, "result": {"task": task}},
    )


def mask(message: Any) -> Any:
    document = {**message.document, "masked": message.document.get("masked", 0) + 1}
    return type(message)(
        **{name: getattr(message, name) for name in message.__struct_fields__ if name != "document"},
        document=document,
    )


class Script:
    """Does what an exchange asks for, with these outcomes on the legs."""

    def __init__(self, outcomes: Mapping[Leg, Outcome] | None = None, *, watched: bool = True) -> None:
        self.outcomes = outcomes or {}
        self.watched = watched
        self.reply = build_reply()
        self.tasks: list[Task] = []
        self.question: dict[str, Any] | None = None
        self.relay_task: Answered | None = None
        self.did: list[ExchangeEffect] = []

    def run(self, steps: ExchangeSteps[Any]) -> Any:
        result: Any = None
        while True:
            try:
                effect = steps.send(result)
            except StopIteration as end:
                return end.value
            self.did.append(effect)
            result = self.do(effect)

    def do(self, effect: ExchangeEffect) -> Any:
        match effect:
            case Inspect(leg, message):
                return self.judge(leg, (message,))
            case InspectEvents(leg, replies):
                return self.judge(leg, tuple(replies))
            case HoldMessage():
                return HELD
            case HoldQuestion():
                return self.question
            case FindTasks():
                return self.tasks
            case AnswerFromTask():
                return {"task": "own"}
            case TranslateCall(call):
                return call
            case Forward():
                return self.reply
            case RewriteReply(reply):
                return self.relay_task or reply
            case _:
                return None

    def judge(self, leg: Leg, messages: tuple[Any, ...]) -> PolicyVerdict:
        outcome = self.outcomes.get(leg, Outcome.PASS)
        if outcome is Outcome.PASS:
            return PASS if self.watched else UNWATCHED
        changed = tuple(map(mask, messages)) if outcome is Outcome.MASK else messages
        return PolicyVerdict(evaluation=Evaluation(outcome=outcome), messages=changed)

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(one, kind) for one in self.did)


def find_end(outcomes: Mapping[Leg, Outcome]) -> Leg | None:
    """The first leg that a message does not pass."""
    return next((leg for leg in MESSAGE_LEGS if outcomes[leg] in (Outcome.HOLD, Outcome.BLOCK)), None)


@pytest.mark.parametrize("after", [None, *MESSAGE_LEGS])
def test_whatever_the_policies_say_nothing_passes_unheld(after: Leg | None) -> None:
    for chosen in product(OUTCOMES, repeat=4):
        outcomes = dict(zip(MESSAGE_LEGS, chosen, strict=True))
        script = Script(outcomes)
        left = {leg: outcomes[leg] if not has_passed(leg, after) else Outcome.PASS for leg in MESSAGE_LEGS}
        end = find_end(left)
        try:
            result = script.run(relay_call(CALL, after=after))
        except A2AError:
            assert end is not None
            assert left[end] is Outcome.BLOCK
        else:
            if end is None:
                masks = sum(left[leg] is Outcome.MASK for leg in RESPONSE_LEGS)
                assert result.document.get("masked", 0) == masks
            else:
                assert left[end] is Outcome.HOLD
                assert result == Answered(HELD)
        inspected = [one.leg for one in script.did if isinstance(one, Inspect)]
        passed = list(MESSAGE_LEGS)[: MESSAGE_LEGS.index(end) + 1] if end is not None else list(MESSAGE_LEGS)
        assert inspected == [leg for leg in passed if not has_passed(leg, after)]
        assert script.count(Forward) == (end not in REQUEST_LEGS)
        assert script.count(Record) == script.count(Forward)
        assert script.count(HoldMessage) == (end is not None and left[end] is Outcome.HOLD)


def test_what_is_forwarded_is_what_was_inspected() -> None:
    script = Script(dict.fromkeys(REQUEST_LEGS, Outcome.MASK))
    script.run(relay_call(CALL))
    [sent] = [one.call for one in script.did if isinstance(one, Forward)]
    assert (sent.document or {})["masked"] == 2


def test_the_steps_of_a_call_have_their_order() -> None:
    script = Script()
    script.run(relay_call(CALL))
    assert [type(one) for one in script.did] == [
        Inspect,
        Inspect,
        Record,
        Forward,
        LinkTask,
        Inspect,
        RewriteReply,
        Inspect,
    ]


@pytest.mark.parametrize("watched", [False, True])
def test_only_a_reply_that_no_policy_watches_is_sent_as_it_arrived(watched: bool) -> None:
    script = Script(watched=watched)
    assert (script.run(relay_call(CALL)) is script.reply) is not watched


def test_a_call_without_content_in_its_answer_ends_without_a_reply() -> None:
    script = Script()
    script.reply = None  # type: ignore[assignment]
    assert script.run(relay_call(CALL)) is None


@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize("operation", ["send", "get", "cancel", "push_get"])
@pytest.mark.parametrize("is_own", [False, True])
def test_a_held_or_ended_task_never_reaches_the_agent_unless_the_call_resumes_it(
    status: TaskStatus, operation: Operation, is_own: bool
) -> None:
    upstream_id = None if status is TaskStatus.RUNNING else "t"
    script = Script()
    script.tasks = [Task(id="t", owner="ann", status=status, upstream_id=upstream_id)]
    document = {
        "jsonrpc": "2.0",
        "id": 1,
        "params": {"id": "t", "taskId": "t", "message": {**MESSAGE, "taskId": "t"}},
    }
    call = A2ACall(dialect=RPC_1_0, operation=operation, document=document, rpc_id=1)
    script.run(relay_call(call, own_task_id="t" if is_own else None))
    is_config_call = operation == "push_get" and status is not TaskStatus.RUNNING
    goes_there = is_own or status is TaskStatus.WITH_AGENT or is_config_call
    assert (script.count(Forward), script.count(AnswerFromTask)) == (goes_there, not goes_there)


def test_a_reply_about_a_task_that_the_relay_answers_for_is_dropped() -> None:
    script = Script()
    script.relay_task = Answered({"task": "own"})
    assert script.run(relay_call(CALL)) == script.relay_task
    assert [one.leg for one in script.did if isinstance(one, Inspect)][-1] is Leg.RESPONSE_FROM_SINK


@pytest.mark.parametrize("held", [None, HELD])
def test_an_agents_question_is_held_or_goes_to_the_caller(held: dict[str, Any] | None) -> None:
    for steps in (
        pass_reply(build_reply("TASK_STATE_INPUT_REQUIRED")),
        pass_events([build_reply(), build_reply("TASK_STATE_INPUT_REQUIRED")]),
        pass_observed_event(build_reply("TASK_STATE_INPUT_REQUIRED")),
    ):
        script = Script()
        script.question = held
        result = script.run(steps)
        assert script.count(HoldQuestion) == 1
        assert isinstance(result, Answered) is (held is not None)


def test_questions_in_a_list_are_held_before_the_list_is_sent() -> None:
    script = Script()
    script.run(pass_reply(build_reply(operation="list")))
    assert isinstance(script.did[0], HoldListedQuestions)


def test_all_events_of_a_stream_wait_for_the_verdict_about_them() -> None:
    events = [build_reply(text="a"), build_reply(text="b")]
    for chosen in product(OUTCOMES, repeat=2):
        outcomes = dict(zip(RESPONSE_LEGS, chosen, strict=True))
        script = Script(outcomes)
        end = find_end({**dict.fromkeys(REQUEST_LEGS, Outcome.PASS), **outcomes})
        if end is not None and outcomes[end] is Outcome.BLOCK:
            with pytest.raises(A2AError):
                script.run(pass_events(events))
        elif end is not None:
            assert script.run(pass_events(events)) == Answered(HELD)
        else:
            masks = sum(one is Outcome.MASK for one in chosen)
            passed = script.run(pass_events(events))
            assert [one.document.get("masked", 0) for one in passed] == [masks, masks]


def test_an_event_of_a_stream_that_is_inspected_by_itself_is_only_rewritten() -> None:
    script = Script()
    assert script.run(pass_event(build_reply())) == build_reply()
    assert [type(one) for one in script.did] == [LinkTask, RewriteReply]


def test_a_card_passes_its_own_leg() -> None:
    script = Script({Leg.AGENT_CARD: Outcome.BLOCK})
    with pytest.raises(A2AError):
        script.run(pass_card(build_reply()))
    assert [one.leg for one in script.did if isinstance(one, Inspect)] == [Leg.AGENT_CARD]
