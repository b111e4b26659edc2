"""The threads of a framework that keeps none itself: its state between two runs, and who works on it.

An adapter takes a thread, lets its framework run, and then pauses or finishes it. What the framework needs
to go on is one JSON value here; the calls that wait, and their answers, are the gate's.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from placet.errors import CheckpointConflict, NobodyAsked, NothingToResume, ThreadPaused
from placet.hook.answer_validation import Feedback, materialize_answers
from placet.hook.checkpoint import Checkpoint
from placet.hook.feedback import FeedbackResult, ToolFeedback, Verdict
from placet.hook.frameworks.call_batches import AsyncCallBatches
from placet.hook.frozen_values import replace
from placet.hook.gate import DEFAULT_LEASE, ApprovalGate
from placet.hook.heartbeat import Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.json_text import digest_json
from placet.hook.policy import Hook, HumanInTheLoopHook, ReviewRequirement, State, ToolConfig
from placet.hook.result_texts import (
    CANCELLED_BY_MESSAGE,
    describe_failure,
    describe_refusal,
    describe_result,
    to_text,
)
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import ToolCall
from placet.hook.turn import Schemas, evaluate_call

Requirements = Mapping[str, ReviewRequirement | None]
"""Call -> how a person is asked about it, or None if it only waits with the others."""
TURN_DIGEST = 12
TURN_SEPARATOR = "#"
RUNNING_DECISIONS = (FeedbackResult.APPROVED, FeedbackResult.EDITED)
"""The decisions that let a call run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedThread:
    """A thread that nobody else works on until it is paused, finished or let go."""

    checkpoint: Checkpoint
    interruption: InterruptionMetadata | None = None
    """The calls that were decided, if the thread goes on from there."""
    messages: tuple[str, ...] = ()
    """What the person wrote while the calls waited."""

    @property
    def state(self) -> str | None:
        """What the framework had when the thread was left; None for a new one."""
        return _read_members(self.checkpoint).get("state")

    @property
    def turn(self) -> str:
        """The gate's key of the calls that were decided."""
        return str(_read_members(self.checkpoint).get("turn", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedThread:
    """A thread that has gone on already: this answer was delivered before."""

    state: str


class FrameworkThreads:
    """Keeps a framework's threads in a saver; one caller at a time works on one.

    Savers list the turns that wait, not the threads: it is a turn that is paused, and its answers with it.
    A framework's state is the text of a JSON object whose `messages` are what the thread has said so far.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        saver: Saver,
        *,
        repeatable: Collection[str] = (),
        lease_for: timedelta = DEFAULT_LEASE,
        **gate: Any,
    ) -> None:
        self.hooks = tuple(hooks)
        self._saver = saver
        self._repeatable = frozenset(repeatable)
        self._lease_for = lease_for
        self._heartbeat = Heartbeat(lease_for)
        # A case must not be opened for what might be lost; otherwise the thread is left right after, synced.
        self._stops_unsynced = not gate.get("reviews")
        self.gate = ApprovalGate(self.hooks, saver, lease_for=lease_for, **gate)
        self._marks = AsyncCallBatches(self.gate)

    def evaluate(
        self, call: ToolCall, state: State, schema: Mapping[str, Any] | None = None
    ) -> ReviewRequirement | None:
        """How the person is asked about this call of a tool with this schema; None if nobody needs to be."""
        return evaluate_call(self.hooks, call, state, schema)

    def requirement_for_all(self, tool: str) -> ReviewRequirement | None:
        """How the person is asked about every call of this tool; None if that depends on the call."""
        for hook in self.hooks:
            if type(hook) is not HumanInTheLoopHook:
                return None
            if (gate := hook.requirement_for_all(tool)) is not None:
                return gate
            if not hook.never_stops(tool):
                return None
        return None

    def never_stops(self, tool: str) -> bool:
        """Whether it is sure that no call of this tool is ever stopped."""
        return all(type(hook) is HumanInTheLoopHook and hook.never_stops(tool) for hook in self.hooks)

    def waiting(self, thread_id: str) -> InterruptionMetadata | None:
        """The calls of this thread that wait for a person, with the decisions so far."""
        standing = self._standing(thread_id)
        turn = "" if standing is None else _read_members(standing).get("turn", "")
        waiting = self.gate.waiting(turn) if turn else None
        return None if standing is None or waiting is None else _present_interruption(waiting, standing)

    def state(self, thread_id: str) -> str | None:
        """What the framework had when the thread was left; None if there is no such thread."""
        standing = self._standing(thread_id)
        return None if standing is None else _read_members(standing).get("state")

    def renewing(self, held: ClaimedThread) -> AbstractContextManager[None]:
        """Nobody takes the thread for abandoned while the block lasts."""
        return self._heartbeat.renewing(self._saver, held.checkpoint)

    def open(self, thread_id: str, message: str | None) -> ClaimedThread | InterruptionMetadata:
        """Take a thread for a new message. If it waits for a person, the hook says what the message does."""
        while True:
            kept = self._saver.get(thread_id)
            standing = Checkpoint(thread_id=thread_id) if kept is None else kept.checkpoint
            try:
                if "turn" in _read_members(standing):
                    return self._interject(standing, message)
                return ClaimedThread(checkpoint=self._claim(standing))
            except CheckpointConflict:
                continue

    def take(
        self, thread_id: str, feedback: Feedback | None
    ) -> ClaimedThread | FinishedThread | InterruptionMetadata:
        """Keep the answers, and take the thread if none is missing; otherwise what still waits.

        The thread may also be named by the turn that waits, as a saver lists it.
        Raises InvalidFeedback, and then keeps nothing; ThreadBusy while another process goes on from here.
        """
        feedback = materialize_answers(feedback)
        while True:
            standing = self._standing(thread_id)
            if standing is None:
                raise NothingToResume
            try:
                return self._answer(standing, feedback)
            except CheckpointConflict:
                continue
            except NothingToResume:
                now = self._standing(thread_id)
                if now is None or now.rev == standing.rev:
                    raise  # otherwise another process went on from here meanwhile

    def pause(
        self,
        held: ClaimedThread,
        state: str,
        calls: Sequence[ToolCall],
        gates: Requirements,
        schemas: Schemas,
    ) -> InterruptionMetadata | None:
        """Freeze the calls as they were requirements, and leave the thread to a person.

        None if nobody needs to be asked after all; then the thread is still held, and the calls may run.
        """
        thread_id, number = held.checkpoint.thread_id, held.checkpoint.rev
        digest = digest_json([call.to_dict() for call in calls])[:TURN_DIGEST]
        turn = f"{thread_id}{TURN_SEPARATOR}{number}-{digest}"
        requirements = {call_id: gate for call_id, gate in gates.items() if gate is not None}
        kept = {"state": state, "turn": turn}
        try:
            interruption = self.gate.stop(
                turn,
                calls,
                schemas=schemas,
                turn=number,
                new=True,
                requirements=requirements,
                unsynced=self._stops_unsynced,
            )
        except NobodyAsked:  # the calls wait all the same, and so does the thread
            self._leave(held, kept)
            raise
        return None if interruption is None else _present_interruption(interruption, self._leave(held, kept))

    def finish(self, held: ClaimedThread, state: str) -> None:
        """Keep where the framework came to; the thread takes a message again."""
        self._leave(held, {"state": state})

    def let_go(self, held: ClaimedThread) -> None:
        """Leave the thread as it was taken: whoever comes next tries again, and no call runs twice."""
        with suppress(CheckpointConflict):
            self._saver.put(held.checkpoint.next(stage="ready"))

    async def once(
        self,
        turn: str,
        asked: ToolCall,
        ran: ToolCall,
        run: Callable[[], Awaitable[Any]],
        text: Callable[[Any], str] = to_text,
        *,
        with_notice: Callable[[str, Any], Any] = lambda notice, result: None,
        alone: bool = False,
    ) -> Any:
        """What a decided call answers, having run it unless it ran before; what it raises is kept too.

        `with_notice` adds a notice of an edit to a result that is more than text, or returns None.
        `alone` is a call that no others of its turn can begin with.
        """
        gate, repeatable = self.gate, ran.name in self._repeatable
        begun = await self._marks.begin(turn, ran.id, repeatable=repeatable, alone=alone)
        if not begun.run:
            return begun.result
        try:
            result = await run()
        except Exception as error:
            await self._marks.finish(turn, ran.id, describe_failure(error), alone=alone)
            raise
        except asyncio.CancelledError:
            await gate.run_blocking(partial(gate.mark_interrupted, turn, ran.id, repeatable=repeatable))
            raise
        said = describe_result(asked, ran, text(result))
        await self._marks.finish(turn, ran.id, said, alone=alone)
        if asked == ran:
            return result
        noticed = with_notice(describe_result(asked, ran, ""), result)
        return said if noticed is None else noticed

    def _answer(
        self, standing: Checkpoint, feedback: Feedback | None
    ) -> ClaimedThread | FinishedThread | InterruptionMetadata:
        kept = _read_members(standing)
        if "turn" not in kept:
            if not _was_delivered(standing, feedback):
                raise NothingToResume
            return FinishedThread(state=kept["state"])
        turn = kept["turn"]
        if feedback is not None and _was_delivered(standing, feedback):
            waiting = self.gate.waiting(turn)
            if waiting is not None and not _answered_call_ids(feedback) & _answered_call_ids(
                waiting.tool_feedbacks
            ):
                return _present_interruption(waiting, standing)
        answered = self.gate.answer(turn, feedback, unsynced=True)
        if isinstance(feedback, InterruptionMetadata) and answered.id != feedback.id:
            standing = self._note_replaced(standing, feedback)
        if answered.undecided:
            return _present_interruption(answered, standing)
        claimed = self._claim(standing)
        return ClaimedThread(checkpoint=claimed, interruption=answered, messages=standing.queued)

    def _note_replaced(self, standing: Checkpoint, waiting: InterruptionMetadata) -> Checkpoint:
        """An edit made it another interruption: the same answer again must not count as a wrong one."""
        noted = standing.next(resumed={**standing.resumed, waiting.id: standing.rev})
        self._saver.put(noted)
        return noted

    def _interject(self, standing: Checkpoint, message: str | None) -> ClaimedThread | InterruptionMetadata:
        way = next((way for hook in self.hooks if (way := getattr(hook, "on_new_message", None))), "refuse")
        turn = _read_members(standing)["turn"]
        waiting = self.gate.waiting(turn)
        if way == "refuse" or message is None or waiting is None:
            raise ThreadPaused
        queued = standing.next(queued=(*standing.queued, message))
        if way == "queue":
            self._saver.put(queued)
            return _present_interruption(waiting, standing)
        decided = self.gate.cancel(turn, CANCELLED_BY_MESSAGE)
        return ClaimedThread(
            checkpoint=self._claim(standing), interruption=decided, messages=(*standing.queued, message)
        )

    def _claim(self, standing: Checkpoint) -> Checkpoint:
        claimed = standing.next(stage="running")
        # Before a call runs, its beginning is kept, and this with it.
        self._saver.unsynced.claim(claimed, lease_for=self._lease_for)
        return claimed

    def _standing(self, thread_id: str) -> Checkpoint | None:
        kept = self._saver.get(thread_id)
        if kept is not None and kept.checkpoint.interruption is None:
            return kept.checkpoint
        name = thread_id.rpartition(TURN_SEPARATOR)[0]
        whose = self._saver.get(name) if name else None
        known = {} if whose is None else _read_members(whose.checkpoint)
        return whose.checkpoint if whose and thread_id in (known.get("turn"), known.get("before")) else None

    def _leave(self, held: ClaimedThread, kept: dict[str, Any]) -> Checkpoint:
        before = held.checkpoint
        resumed, answered = dict(before.resumed), _read_members(before).get("answered", [])
        if held.interruption is not None:
            resumed[held.interruption.id] = before.rev
            answered = [waiting.id for waiting in held.interruption.tool_feedbacks]
        kept = {**kept, "answered": answered, "before": held.turn or _read_members(before).get("before")}
        left = before.next(stage="ready", messages=(kept,), resumed=resumed, queued=())
        self._saver.put(left)
        if held.turn:
            self.gate.release(held.turn)
        return left


def requirement_to_dict(gate: ReviewRequirement | None) -> dict[str, Any] | None:
    """A judgement as JSON; its condition is not needed again."""
    if gate is None:
        return None
    config = gate.config
    return {
        "description": gate.description,
        "allowed_decisions": list(config.allowed_decisions),
        "timeout": None if config.timeout_duration is None else config.timeout_duration.total_seconds(),
        "default": config.default,
        "high_risk": config.high_risk,
    }


def requirement_from_dict(kept: Mapping[str, Any]) -> ReviewRequirement:
    """What `requirement_to_dict` wrote; what is missing is as usual."""
    members = dict(kept)
    return ReviewRequirement(description=members.pop("description", ""), config=ToolConfig(**members))


def resolve_call(standing: InterruptionMetadata, call_id: str) -> ToolCall | str | None:
    """The call as it may run, what stands in its place, or None if nobody has decided it."""
    for feedback in standing.tool_feedbacks:
        if feedback.id == call_id:
            return feedback.call if feedback.result in RUNNING_DECISIONS else refusal_of(feedback)
    return next((call for call in standing.tools_automatically_approved if call.id == call_id), None)


def has_single_call(standing: InterruptionMetadata) -> bool:
    """Whether the turn has one call only."""
    return len(standing.tool_feedbacks) + len(standing.tools_automatically_approved) == 1


def refusal_of(feedback: ToolFeedback) -> str | None:
    """What the model reads instead of the tool's result; None if nobody has decided the call."""
    if feedback.result is None:
        return None
    return describe_refusal(Verdict(decision=feedback.result, reason=feedback.reason, answer=feedback.answer))


class _LazyMessages(Mapping[str, Any]):
    """Where a thread stands, as an interruption shows it; read only if somebody looks."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, name: str) -> Any:
        if name != "messages":
            raise KeyError(name)
        return tuple(json.loads(self._text)["messages"])

    def __iter__(self) -> Iterator[str]:
        return iter(("messages",))

    def __len__(self) -> int:
        return 1


def _present_interruption(interruption: InterruptionMetadata, standing: Checkpoint) -> InterruptionMetadata:
    """The interruption as a caller sees it: of their own thread, where that stands."""
    said = _LazyMessages(_read_members(standing)["state"])
    return replace(interruption, thread_id=standing.thread_id, state=said)


def _read_members(checkpoint: Checkpoint) -> dict[str, Any]:
    return checkpoint.messages[0] if checkpoint.messages else {}


def _was_delivered(standing: Checkpoint, feedback: Feedback | None) -> bool:
    """Whether this answers an earlier interruption of the thread, which went on from it already."""
    if isinstance(feedback, InterruptionMetadata):
        return feedback.id in standing.resumed
    if feedback is None:
        return bool(standing.resumed)
    named = _answered_call_ids(feedback)
    return bool(named) and named <= set(_read_members(standing).get("answered", []))


def _answered_call_ids(feedback: Feedback) -> set[Any]:
    """The calls that are answered; of an interruption none, since it has a name itself."""
    if isinstance(feedback, InterruptionMetadata):
        return set()
    return set(
        feedback if isinstance(feedback, Mapping) else (getattr(said, "id", None) for said in feedback)
    )
