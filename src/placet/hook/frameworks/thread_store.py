"""Threads for frameworks that store none: the framework's state between two runs, under a lease.

An adapter claims a thread, runs its framework, and then pauses or finishes the thread. The framework's state
is one JSON text here; waiting calls and their answers belong to the gate.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, Unpack

from placet.errors import AlreadyDecided, CaseNotOpened, CheckpointConflict, NothingToResume, ThreadPaused
from placet.hook.answer_validation import Feedback, materialize_answers
from placet.hook.approval_rules import (
    Hook,
    HumanInTheLoopHook,
    ReviewRequirement,
    State,
    ToolConfig,
    find_new_message_policy,
)
from placet.hook.argument_checks import require_names
from placet.hook.call_evaluation import arun_evaluation, check_provider_tools, evaluate_call
from placet.hook.checkpoint import Checkpoint
from placet.hook.decision_record import describe_contradictions, find_contradictions, record_decisions
from placet.hook.feedback import FeedbackResult
from placet.hook.frameworks.call_batches import AsyncCallBatches
from placet.hook.frozen_values import replace
from placet.hook.gate import Gate, GateOptions
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.json_text import digest_json
from placet.hook.result_texts import (
    CANCELLED_BY_MESSAGE,
    describe_failure,
    describe_result,
    get_refusal,
    to_text,
)
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import Schemas, ToolCall
from placet.hook.turn import find_calls_before_message

T = TypeVar("T")
ReviewRequirements = Mapping[str, ReviewRequirement | None]
"""Call id -> how it must be reviewed, or None if it only waits with the others."""
TURN_DIGEST = 12
TURN_SEPARATOR = "#"
RUNNING_DECISIONS = (FeedbackResult.APPROVED, FeedbackResult.EDITED)
"""The decisions that let a call run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedThread:
    """A thread that only this process works on until it is paused, finished or released."""

    checkpoint: Checkpoint
    interruption: InterruptionMetadata | None = None
    """The decided calls, if the thread continues from them."""
    messages: tuple[str, ...] = ()
    """Messages that arrived while the calls waited."""

    @property
    def state(self) -> str | None:
        """The framework's saved state; None for a new thread."""
        return _read_members(self.checkpoint).get("state")

    @property
    def turn(self) -> str:
        """The gate's key of the decided calls."""
        return str(_read_members(self.checkpoint).get("turn", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedThread:
    """A thread that has already continued: this answer was delivered before."""

    state: str
    contradictions: tuple[str, ...] = ()
    """What the answer says otherwise than the one that counts."""

    def deliver(self, outcome: T) -> T:
        """Return the outcome once more; raises AlreadyDecided if this answer contradicts the first one."""
        _refuse_contradictions(self.contradictions, outcome)
        return outcome


class FrameworkThreads:
    """Stores a framework's threads in a saver; one caller at a time works on a thread.

    Savers list the paused turns, not the threads, because the answers belong to the turn. The framework's
    state is the text of a JSON object whose `messages` are the thread's messages so far.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        saver: Saver,
        *,
        repeatable: Collection[str] = (),
        **options: Unpack[GateOptions],
    ) -> None:
        self.hooks = tuple(hooks)
        self._saver = saver
        self._repeatable = frozenset(require_names("repeatable", repeatable))
        self._lease_for = options.get("lease_for", DEFAULT_LEASE)
        self._heartbeat = Heartbeat(self._lease_for)
        # With reviews, sync before the case is opened; without, the thread is saved right after, synced.
        self._stops_unsynced = not options.get("reviews")
        self.gate = Gate(self.hooks, saver, **options)
        self._marks = AsyncCallBatches(self.gate)

    async def evaluate(
        self, call: ToolCall, state: State, schema: Mapping[str, Any] | None = None
    ) -> ReviewRequirement | None:
        """Return how this call must be reviewed, given its tool's schema; None if it needs no review."""
        return await arun_evaluation(evaluate_call(self.hooks, call, state, schema))

    async def check_provider_tools(self, names: Iterable[str], state: State) -> None:
        """Raise HookError if a rule stops a tool that the model's provider runs: its calls cannot wait."""
        await arun_evaluation(check_provider_tools(self.hooks, names, state))

    def requirement_for_all(self, tool: str) -> ReviewRequirement | None:
        """Return how every call of this tool is reviewed; None if that depends on the call."""
        for hook in self.hooks:
            if type(hook) is not HumanInTheLoopHook:
                return None
            if (gate := hook.requirement_for_all(tool)) is not None:
                return gate
            if not hook.never_stops(tool):
                return None
        return None

    def never_stops(self, tool: str) -> bool:
        """Return whether certainly no call of this tool is ever stopped."""
        return all(type(hook) is HumanInTheLoopHook and hook.never_stops(tool) for hook in self.hooks)

    def waiting(self, thread_id: str) -> InterruptionMetadata | None:
        """Return the calls of this thread that wait for a reviewer, with the decisions so far."""
        checkpoint = self._find_checkpoint(thread_id)
        turn = "" if checkpoint is None else _read_members(checkpoint).get("turn", "")
        waiting = self.gate.waiting(turn) if turn else None
        return None if checkpoint is None or waiting is None else _present_interruption(waiting, checkpoint)

    def find_thread(self, checkpoint: Checkpoint) -> str | None:
        """Return the thread that a waiting turn, or a thread that a process worked on, belongs to."""
        if checkpoint.agent:
            return None
        if checkpoint.interruption is None:
            return checkpoint.thread_id if "state" in _read_members(checkpoint) else None
        return checkpoint.thread_id.rpartition(TURN_SEPARATOR)[0] or None

    def state(self, thread_id: str) -> str | None:
        """Return the framework's saved state; None if the thread does not exist."""
        checkpoint = self._find_checkpoint(thread_id)
        return None if checkpoint is None else _read_members(checkpoint).get("state")

    def renewing(self, held: ClaimedThread) -> AbstractContextManager[None]:
        """Return a context manager that renews the thread's lease."""
        return self._heartbeat.renewing(self._saver, held.checkpoint)

    def open(self, thread_id: str, message: str | None) -> ClaimedThread | InterruptionMetadata:
        """Claim a thread for a new message. If it is paused, the hook's `on_new_message` applies."""
        while True:
            saved = self._saver.get(thread_id)
            checkpoint = Checkpoint(thread_id=thread_id) if saved is None else saved.checkpoint
            try:
                if "turn" in _read_members(checkpoint):
                    return self._handle_new_message(checkpoint, message)
                return ClaimedThread(checkpoint=self._claim(checkpoint))
            except CheckpointConflict:
                continue

    def take(
        self, thread_id: str, feedback: Feedback | None
    ) -> ClaimedThread | FinishedThread | InterruptionMetadata:
        """Store the answers, and claim the thread if they are complete; otherwise return the waiting calls.

        The thread may also be named by its waiting turn, as a saver lists it. Raises InvalidFeedback,
        and then stores nothing; ThreadBusy while another process continues it.
        """
        feedback = materialize_answers(feedback)
        while True:
            checkpoint = self._find_checkpoint(thread_id)
            if checkpoint is None:
                raise NothingToResume
            try:
                return self._answer(checkpoint, feedback)
            except CheckpointConflict:
                continue
            except NothingToResume:
                now = self._find_checkpoint(thread_id)
                if now is None or now.rev == checkpoint.rev:
                    raise  # otherwise another process continued the thread meanwhile

    def pause(
        self,
        held: ClaimedThread,
        state: str,
        calls: Sequence[ToolCall],
        evaluated: ReviewRequirements,
        schemas: Schemas,
    ) -> InterruptionMetadata | None:
        """Freeze the calls as evaluated, and pause the thread for a reviewer.

        Returns None if no review is needed after all; then the thread stays claimed, and the calls
        may run.
        """
        thread_id, number = held.checkpoint.thread_id, held.checkpoint.rev
        digest = digest_json([call.to_dict() for call in calls])[:TURN_DIGEST]
        turn = f"{thread_id}{TURN_SEPARATOR}{number}-{digest}"
        requirements = {call_id: needed for call_id, needed in evaluated.items() if needed is not None}
        members = {"state": state, "turn": turn}
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
        except CaseNotOpened:  # the calls wait nevertheless, and so does the thread
            self._save_and_release(held, members)
            raise
        return (
            None
            if interruption is None
            else _present_interruption(interruption, self._save_and_release(held, members))
        )

    def finish(self, held: ClaimedThread, state: str) -> None:
        """Save the framework's final state; the thread takes a message again."""
        self._save_and_release(held, {"state": state})

    def release_thread(self, held: ClaimedThread) -> None:
        """Release the thread unchanged: the next caller tries again, and no call runs twice."""
        with suppress(CheckpointConflict):
            self._saver.put(held.checkpoint.next(stage="ready"))

    async def run_once(
        self,
        turn: str,
        asked: ToolCall,
        ran: ToolCall,
        run: Callable[[], Awaitable[Any]],
        text: Callable[[Any], str] = to_text,
        *,
        with_notice: Callable[[str, Any], Any] = lambda notice, result: None,
        is_only_call: bool = False,
    ) -> Any:
        """Return the result of a decided call, running it unless it ran before; errors are stored too.

        `with_notice` adds a notice of an edit to a result that is more than text, or returns None.
        `is_only_call` says that the call is the only one of its turn.
        """
        gate, repeatable = self.gate, ran.name in self._repeatable
        begun = await self._marks.begin(turn, ran.id, repeatable=repeatable, is_only_call=is_only_call)
        if not begun.run:
            return begun.result
        try:
            result = await run()
        except Exception as error:
            await self._marks.finish(turn, ran.id, describe_failure(error), is_only_call=is_only_call)
            raise
        except asyncio.CancelledError:
            await gate.run_blocking(partial(gate.mark_interrupted, turn, ran.id, repeatable=repeatable))
            raise
        said = describe_result(asked, ran, text(result))
        await self._marks.finish(turn, ran.id, said, is_only_call=is_only_call)
        if asked == ran:
            return result
        noticed = with_notice(describe_result(asked, ran, ""), result)
        return said if noticed is None else noticed

    def _answer(
        self, checkpoint: Checkpoint, feedback: Feedback | None
    ) -> ClaimedThread | FinishedThread | InterruptionMetadata:
        members = _read_members(checkpoint)
        if "turn" not in members:
            if not _was_delivered(checkpoint, feedback):
                raise NothingToResume
            problems = find_contradictions(checkpoint.decided, feedback)
            return FinishedThread(state=members["state"], contradictions=tuple(problems))
        turn = members["turn"]
        if feedback is not None and _was_delivered(checkpoint, feedback):
            waiting = self.gate.waiting(turn)
            if waiting is not None and not _collect_call_ids(feedback) & _collect_call_ids(
                waiting.tool_feedbacks
            ):
                shown = _present_interruption(waiting, checkpoint)
                _refuse_contradictions(find_contradictions(checkpoint.decided, feedback), shown)
                return shown
        try:
            answered = self.gate.answer(turn, feedback, unsynced=True)
        except AlreadyDecided as error:
            shown = _present_interruption(error.outcome, checkpoint)
            raise AlreadyDecided(error.message, outcome=shown, **error.details) from None
        if isinstance(feedback, InterruptionMetadata) and answered.id != feedback.id:
            checkpoint = self._note_replaced(checkpoint, feedback)
        if answered.undecided:
            return _present_interruption(answered, checkpoint)
        claimed = self._claim(checkpoint)
        return ClaimedThread(checkpoint=claimed, interruption=answered, messages=checkpoint.queued)

    def _note_replaced(self, checkpoint: Checkpoint, waiting: InterruptionMetadata) -> Checkpoint:
        """Record that an edit replaced the interruption: repeating the same answer must not be an error."""
        noted = checkpoint.next(
            resumed={**checkpoint.resumed, waiting.id: checkpoint.rev},
            decided=record_decisions(checkpoint.decided, waiting),
        )
        self._saver.put(noted)
        return noted

    def _handle_new_message(
        self, checkpoint: Checkpoint, message: str | None
    ) -> ClaimedThread | InterruptionMetadata:
        turn = _read_members(checkpoint)["turn"]
        if message is None:
            raise ThreadPaused
        waiting = find_calls_before_message(find_new_message_policy(self.hooks), self.gate.waiting(turn))
        if waiting is not None:
            self._saver.put(checkpoint.next(queued=(*checkpoint.queued, message)))
            return _present_interruption(waiting, checkpoint)
        decided = self.gate.cancel(turn, CANCELLED_BY_MESSAGE)
        return ClaimedThread(
            checkpoint=self._claim(checkpoint), interruption=decided, messages=(*checkpoint.queued, message)
        )

    def _claim(self, checkpoint: Checkpoint) -> Checkpoint:
        claimed = checkpoint.next(stage="running")
        # The start of the first call is written synced, and this claim with it.
        self._saver.unsynced.claim(claimed, lease_for=self._lease_for)
        return claimed

    def _find_checkpoint(self, thread_id: str) -> Checkpoint | None:
        saved = self._saver.get(thread_id)
        if saved is not None and saved.checkpoint.interruption is None:
            return saved.checkpoint
        name = thread_id.rpartition(TURN_SEPARATOR)[0]
        owner = self._saver.get(name) if name else None
        known = {} if owner is None else _read_members(owner.checkpoint)
        return owner.checkpoint if owner and thread_id in (known.get("turn"), known.get("before")) else None

    def _save_and_release(self, held: ClaimedThread, members: dict[str, Any]) -> Checkpoint:
        before = held.checkpoint
        resumed, answered = dict(before.resumed), _read_members(before).get("answered", [])
        decided = before.decided
        if held.interruption is not None:
            resumed[held.interruption.id] = before.rev
            decided = record_decisions(decided, held.interruption)
            answered = [waiting.id for waiting in held.interruption.tool_feedbacks]
        members = {
            **members,
            "answered": answered,
            "before": held.turn or _read_members(before).get("before"),
        }
        left = before.next(stage="ready", messages=(members,), resumed=resumed, decided=decided, queued=())
        self._saver.put(left)
        if held.turn:
            self.gate.release(held.turn)
        return left


def requirement_to_dict(gate: ReviewRequirement | None) -> dict[str, Any] | None:
    """Return a requirement as JSON; its condition is not needed again."""
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


def requirement_from_dict(stored: Mapping[str, Any]) -> ReviewRequirement:
    """Return what `requirement_to_dict` wrote, with defaults for missing members."""
    members = dict(stored)
    return ReviewRequirement(description=members.pop("description", ""), config=ToolConfig(**members))


def resolve_call(interruption: InterruptionMetadata, call_id: str) -> ToolCall | str | None:
    """Return the call as it may run, the text that replaces its result, or None if it is undecided."""
    for feedback in interruption.tool_feedbacks:
        if feedback.id == call_id:
            return feedback.call if feedback.result in RUNNING_DECISIONS else get_refusal(feedback)
    return next((call for call in interruption.tools_automatically_approved if call.id == call_id), None)


def has_single_call(interruption: InterruptionMetadata) -> bool:
    """Return whether the turn has only one call."""
    return len(interruption.tool_feedbacks) + len(interruption.tools_automatically_approved) == 1


class _LazyMessages(Mapping[str, Any]):
    """The messages of a thread, parsed only when they are read."""

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


def _present_interruption(interruption: InterruptionMetadata, checkpoint: Checkpoint) -> InterruptionMetadata:
    """Return the interruption as callers see it: with the thread's id and messages."""
    said = _LazyMessages(_read_members(checkpoint)["state"])
    return replace(interruption, thread_id=checkpoint.thread_id, state=said)


def _refuse_contradictions(problems: Sequence[str], outcome: Any) -> None:
    if problems:
        raise AlreadyDecided(describe_contradictions(problems), outcome=outcome, problems=[*problems])


def _read_members(checkpoint: Checkpoint) -> dict[str, Any]:
    return checkpoint.messages[0] if checkpoint.messages else {}


def _was_delivered(checkpoint: Checkpoint, feedback: Feedback | None) -> bool:
    """Return whether this answers an earlier interruption, from which the thread has continued."""
    if isinstance(feedback, InterruptionMetadata):
        return feedback.id in checkpoint.resumed
    if feedback is None:
        return bool(checkpoint.resumed)
    named = _collect_call_ids(feedback)
    return bool(named) and named <= set(_read_members(checkpoint).get("answered", []))


def _collect_call_ids(feedback: Feedback) -> set[Any]:
    """Return the ids of the answered calls; none for an interruption, which has its own id."""
    if isinstance(feedback, InterruptionMetadata):
        return set()
    return set(
        feedback if isinstance(feedback, Mapping) else (getattr(said, "id", None) for said in feedback)
    )
