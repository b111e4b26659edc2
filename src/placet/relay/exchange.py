"""One relayed call over its four legs: what is inspected, held, forwarded and recorded, and in which order.

`Exchange` is the call with everything that travels with it. The functions are generators without side
effects. Each yields what is to be done next and receives the result; the relay's runtime does it. Nothing
reaches the agent or the caller in another way.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from placet.ports.task_store import TaskKey, TaskRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Operation
from placet.relay.a2a.json_format import Json
from placet.relay.a2a.reply import A2AReply, digest_message
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import MESSAGE_LEGS, RESPONSE_LEGS, Leg
from placet.relay.policy.verdict import PolicyVerdict
from placet.relay.task import Task
from placet.relay.tenants import Subscription

MessageT = TypeVar("MessageT", A2ACall, A2AReply)
RELAY_OPERATIONS: frozenset[Operation] = frozenset({"get", "cancel", "subscribe", "send", "stream"})
"""The operations that the relay answers for a held or ended task, even if the agent knows the task."""
REQUEST_FROM_SOURCE, REQUEST_TO_SINK = Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK
RESPONSE_FROM_SINK, RESPONSE_TO_SOURCE = Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE


class CallWrites:
    """The task rows that one call has changed and that wait for the audit event of the call."""

    __slots__ = ("is_recorded", "rows")

    def __init__(self) -> None:
        self.rows: dict[TaskKey, TaskRow] = {}
        self.is_recorded = False
        """Whether the last event of the call is queued, so that later rows need not wait."""

    def add(self, row: TaskRow) -> None:
        """Keep the newest row of a key for the event of the call."""
        self.rows[row.key] = row

    def take_rows(self) -> tuple[TaskRow, ...]:
        """Return the rows that still wait, and keep none."""
        rows, self.rows = self.rows, {}
        return (*rows.values(),)

    def finish(self) -> None:
        """Record that the last event of the call is queued."""
        self.is_recorded = True


class FindingsRecord:
    """The findings of one call by leg. Inspectors add to it while the call runs."""

    __slots__ = ("findings", "outcome", "unreadable_paths")

    def __init__(self) -> None:
        self.findings: dict[Leg, tuple[Finding, ...]] = {}
        self.unreadable_paths: dict[Leg, tuple[str, ...]] = {}
        self.outcome = Outcome.PASS
        """The strictest outcome of all legs."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no findings and every outcome is to pass."""
        return not self.findings and not self.unreadable_paths and self.outcome is Outcome.PASS

    def add(self, leg: Leg, evaluation: Evaluation) -> None:
        """Add the evaluation of a leg."""
        if evaluation.findings:
            self.findings[leg] = (*self.findings.get(leg, ()), *evaluation.findings)
        if evaluation.unreadable_paths:
            self.unreadable_paths[leg] = (*self.unreadable_paths.get(leg, ()), *evaluation.unreadable_paths)
        if evaluation.outcome.strictness > self.outcome.strictness:
            self.outcome = evaluation.outcome


class ExchangeState:
    """The state of one call that changes while the call is handled."""

    __slots__ = (
        "forwarded",
        "inspections",
        "is_in_background",
        "released_events",
        "sent_message",
        "task_id",
        "upstream_id",
        "writes",
    )

    def __init__(self, task_id: str | None = None, *, writes: CallWrites | None = None) -> None:
        self.task_id = task_id
        """The relay's id for the task of the call; None if the relay has not created or held one."""
        self.writes = writes
        """The task rows that wait for the audit event of the call; None if rows are written at once."""
        self.upstream_id: str | None = None
        """The agent's id for the task."""
        self.forwarded: str | None = None
        """The digest of the message as the agent gets it (`digest_message`); None for other operations."""
        self.sent_message: Json | None = None
        """The message as the agent gets it."""
        self.released_events = 0
        """The number of events of a stream that the caller has got before it was inspected as a whole."""
        self.inspections = 0
        """How many inspections are in progress. Each of them may hold the message."""
        self.is_in_background = False
        """Whether the call continues after its caller was answered, so that more findings may follow."""

    def assign_task(self, task_id: str) -> None:
        """Record the relay's id for the task of a call that continues in the background."""
        self.task_id = task_id

    def link_agent_task(self, agent_task_id: str) -> None:
        """Record the agent's id for the task."""
        self.upstream_id = agent_task_id

    def count_released(self, events: int) -> None:
        """Record how many events of a stream the caller has got before it was inspected as a whole."""
        self.released_events = events

    def continue_in_background(self) -> None:
        """Record that the call continues after its caller was answered."""
        self.is_in_background = True

    @contextmanager
    def count_inspection(self) -> Iterator[None]:
        """Count an inspection while it is in progress."""
        self.inspections += 1
        try:
            yield
        finally:
            self.inspections -= 1

    def record_sent(self, message: Json) -> str:
        """Record the message as the agent gets it, and return its digest."""
        self.sent_message, self.forwarded = message, digest_message(message)
        return self.forwarded


class Exchange(Struct, frozen=True, kw_only=True):
    """One call with everything that travels with it. The messages on its legs are passed beside it."""

    subscription: Subscription
    call: A2ACall
    correlation_id: str
    headers: Mapping[str, str] = {}
    """The headers for the agent, including its credentials."""
    size: int = 0
    """The number of bytes that the caller sent."""
    webhook: str | None = None
    """The relay's webhook for the agent, if the caller wants push notifications."""
    transport: Literal["GRPC"] | None = None
    """The caller's transport, if it is not the one of the dialect."""
    pushed: bool = False
    """Whether this is a push notification of the agent. The call then only names the task."""
    after: Leg | None = None
    """The last leg that a held message has passed; None for a call that was not held."""
    state: ExchangeState = field(default_factory=ExchangeState)
    findings_record: FindingsRecord = field(default_factory=FindingsRecord)
    """The findings on all legs, for the audit event of the call."""


class Answered(Struct, frozen=True):
    """The relay answers the call itself, with this document, and the agent does not."""

    document: Json


class RelayAnswer(Struct, frozen=True, kw_only=True):
    """A whole response for the caller."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    reply: A2AReply | None = None


class AnsweredByRelay(Exception):
    """The relay answers the call itself, with this document, and the agent does not."""

    def __init__(self, document: Json) -> None:
        super().__init__("the relay answers the call itself")
        self.document = document


# What is to be done. The last line of each docstring says what the generator receives.


class Inspect(Struct, frozen=True):
    """Apply the policies to a message on a leg.

    Result: a PolicyVerdict.
    """

    leg: Leg
    message: A2ACall | A2AReply


class InspectEvents(Struct, frozen=True):
    """Apply the policies to all events of a stream together.

    Result: a PolicyVerdict.
    """

    leg: Leg
    replies: Sequence[A2AReply]


class HoldMessage(Struct, frozen=True):
    """Hold a message until a person decides.

    Result: the document that the caller gets, with the held task.
    """

    leg: Leg
    message: A2ACall | A2AReply
    verdict: PolicyVerdict


class HoldQuestion(Struct, frozen=True):
    """Hold an agent's request for input, unless it goes to the caller.

    Result: the document that the caller gets, or None if the request is not held.
    """

    reply: A2AReply


class HoldListedQuestions(Struct, frozen=True):
    """Hold the requests for input in a task list, as if the caller had fetched each task.

    Result: None.
    """

    reply: A2AReply


class FindTasks(Struct, frozen=True):
    """Find the tasks that a call names.

    Result: the tasks, all of which belong to the caller.
    """

    call: A2ACall


class AnswerFromTask(Struct, frozen=True):
    """Answer a call about a task without the agent.

    Result: the document that the caller gets.
    """

    call: A2ACall
    task: Task


class TranslateCall(Struct, frozen=True):
    """Replace the caller's ids by the agent's.

    Result: the call.
    """

    call: A2ACall
    tasks: Sequence[Task]


class Record(Struct, frozen=True):
    """Record in its task that a message is forwarded, so that it is recognized when the agent repeats it.

    Result: None.
    """

    call: A2ACall
    message: Json


class Forward(Struct, frozen=True):
    """Send the call to the agent.

    Result: the agent's reply, or None if it answered without content.
    """

    call: A2ACall


class LinkTask(Struct, frozen=True):
    """Link the agent's id of a task to the id that the caller was given before.

    Result: None.
    """

    reply: A2AReply


class RewriteReply(Struct, frozen=True):
    """Replace the agent's ids, push addresses and URLs by the caller's.

    Result: the reply, or Answered if the relay answers for its task.
    """

    reply: A2AReply


ExchangeEffect = (
    Inspect
    | InspectEvents
    | HoldMessage
    | HoldQuestion
    | HoldListedQuestions
    | FindTasks
    | AnswerFromTask
    | TranslateCall
    | Record
    | Forward
    | LinkTask
    | RewriteReply
)
T = TypeVar("T")
ExchangeSteps = Generator[ExchangeEffect, Any, T]


def relay_call(
    call: A2ACall, *, after: Leg | None = None, own_task_id: str | None = None
) -> ExchangeSteps[A2AReply | Answered | None]:
    """Relay a call that is not streamed. Return the reply as the caller gets it, None if it has no content.

    `after` is the last leg that a held message had passed, and `own_task_id` the task that it belongs to.
    """
    prepared = yield from pass_request(call, after=after, own_task_id=own_task_id)
    if isinstance(prepared, Answered):
        return prepared
    reply = yield Forward(prepared)
    return None if reply is None else (yield from pass_reply(reply, after=after))


def pass_request(
    call: A2ACall, *, after: Leg | None = None, own_task_id: str | None = None
) -> ExchangeSteps[A2ACall | Answered]:
    """Take a call to the agent over both request legs. Return it as the agent gets it."""
    if not has_passed(REQUEST_TO_SINK, after):
        passed = yield from _pass_request_legs(call, after, own_task_id)
        if isinstance(passed, Answered):
            return passed
        call = passed
    if call.message is not None:
        yield Record(call, call.message)
    return call


def _pass_request_legs(
    call: A2ACall, after: Leg | None, own_task_id: str | None
) -> ExchangeSteps[A2ACall | Answered]:
    if not has_passed(REQUEST_FROM_SOURCE, after):
        passed = yield from _pass_leg(REQUEST_FROM_SOURCE, call)
        if isinstance(passed, Answered):
            return passed
        call = passed
    tasks = (yield FindTasks(call)) if call.task_ids else ()
    for task in tasks:
        if is_answered_by_relay(task, call.operation, own_task_id):
            return Answered((yield AnswerFromTask(call, task)))
    if tasks or call.context_id is not None:
        call = yield TranslateCall(call, tasks)
    return (yield from _pass_leg(REQUEST_TO_SINK, call))


def pass_reply(reply: A2AReply, *, after: Leg | None = None) -> ExchangeSteps[A2AReply | Answered]:
    """Take a reply, a stream event or a push notification to the caller over both response legs.

    Return it as the caller gets it: the same object if it was not inspected and not changed.
    """
    current, is_watched = reply, False
    if reply.operation == "list":
        yield HoldListedQuestions(reply)
    if not has_passed(RESPONSE_FROM_SINK, after):
        yield LinkTask(reply)
        verdict: PolicyVerdict = yield Inspect(RESPONSE_FROM_SINK, reply)
        is_watched = verdict.is_watched
        passed = yield from _apply(verdict, RESPONSE_FROM_SINK, reply)
        if not isinstance(passed, Answered):
            passed = yield RewriteReply(passed)
        if isinstance(passed, Answered):
            return passed
        current = passed
    if not has_passed(RESPONSE_TO_SOURCE, after):
        verdict = yield Inspect(RESPONSE_TO_SOURCE, current)
        is_watched = is_watched or verdict.is_watched
        passed = yield from _apply(verdict, RESPONSE_TO_SOURCE, current)
        if isinstance(passed, Answered):
            return passed
        current = passed
    asked = yield from _pass_question(current)
    # Send the inspected document, encoded again: the agent's bytes may repeat a field with another value.
    return asked.copy() if is_watched and asked is reply else asked


def pass_event(reply: A2AReply) -> ExchangeSteps[A2AReply | Answered]:
    """Take an event to the caller whose stream is inspected by itself."""
    yield LinkTask(reply)
    passed: A2AReply | Answered = yield RewriteReply(reply)
    return passed


def pass_observed_event(reply: A2AReply) -> ExchangeSteps[A2AReply | Answered]:
    """Take an event of a stream to the caller that policies only observe."""
    passed = yield from pass_event(reply)
    return passed if isinstance(passed, Answered) else (yield from _pass_question(passed))


def pass_events(replies: Sequence[A2AReply]) -> ExchangeSteps[Sequence[A2AReply] | Answered]:
    """Take all events of a stream to the caller, inspected together. Return them as the caller gets them."""
    for reply in replies:
        yield LinkTask(reply)
    for leg in RESPONSE_LEGS:
        verdict: PolicyVerdict = yield InspectEvents(leg, replies)
        if verdict.outcome is Outcome.HOLD:
            return Answered((yield HoldMessage(leg, verdict.messages[0], verdict)))
        if verdict.outcome is Outcome.BLOCK:
            raise verdict.build_refusal()
        replies = [one for one in verdict.messages if isinstance(one, A2AReply)] or replies
        if leg is RESPONSE_FROM_SINK:
            rewritten = []
            for reply in replies:
                event = yield RewriteReply(reply)
                if isinstance(event, Answered):
                    return event
                rewritten.append(event)
            replies = rewritten
    for reply in replies:
        passed = yield from _pass_question(reply)
        if isinstance(passed, Answered):
            return passed
    return replies


def pass_card(card: A2AReply) -> ExchangeSteps[A2AReply | Answered]:
    """Take an agent's card to the caller."""
    return (yield from _pass_leg(Leg.AGENT_CARD, card))


def has_passed(leg: Leg, after: Leg | None) -> bool:
    """Return whether a held message had passed this leg; `after` is the last one that it had passed."""
    return after is not None and MESSAGE_LEGS.index(leg) <= MESSAGE_LEGS.index(after)


def is_answered_by_relay(task: Task, operation: Operation, own_task_id: str | None) -> bool:
    """Return whether the relay answers a call about a task, because the agent does not know it or it is held.

    A call that resumes a held message goes to the agent.
    """
    if task.id == own_task_id:
        return False
    return not task.is_known_to_agent or (task.is_kept_by_relay and operation in RELAY_OPERATIONS)


def _pass_leg(leg: Leg, message: MessageT) -> ExchangeSteps[MessageT | Answered]:
    return (yield from _apply((yield Inspect(leg, message)), leg, message))


def _apply(verdict: PolicyVerdict, leg: Leg, message: MessageT) -> ExchangeSteps[MessageT | Answered]:
    """Return what may continue. Raises A2AError if the message is refused."""
    if verdict.outcome is Outcome.HOLD:
        return Answered((yield HoldMessage(leg, message, verdict)))
    if verdict.outcome is Outcome.BLOCK:
        raise verdict.build_refusal()
    for changed in verdict.messages:
        if isinstance(changed, type(message)):
            return changed
    return message


def _pass_question(reply: A2AReply) -> ExchangeSteps[A2AReply | Answered]:
    """Return a reply, unless the agent asks for input in it and the request is held."""
    if reply.state != "input-required":
        return reply
    document = yield HoldQuestion(reply)
    return reply if document is None else Answered(document)
