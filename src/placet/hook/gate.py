"""The gate that framework adapters share: stop a turn once, store its answers, run each call once.

An adapter says what its framework is about to call, and follows the verdicts; the framework keeps its own
thread, messages and loop. Everything here is stored in a Saver, under a key that the adapter derives from the
framework's thread and turn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar

from placet.cases.execution_outcomes import NotRunReason
from placet.errors import CheckpointConflict, NothingToResume, ThreadBusy, Unavailable
from placet.hook import turn as turns
from placet.hook.answer_validation import Feedback, materialize_answers
from placet.hook.approval_rules import Hook, ReviewRequirement, State, has_async_hook
from placet.hook.argument_checks import (
    require_duration,
    require_function,
    require_grants,
    require_hooks,
    require_list,
    require_reviews,
    require_text,
)
from placet.hook.async_values import offer_event_loop
from placet.hook.blocking import BlockingCaller
from placet.hook.call_leases import CallLeases, CallStart
from placet.hook.checkpoint import Checkpoint
from placet.hook.checkpoint_cache import CheckpointCache
from placet.hook.grants import GrantSource, generate_nonce
from placet.hook.heartbeat import DEFAULT_LEASE, Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.receipts import ReceiptOutbox
from placet.hook.result_texts import OUTCOME_UNKNOWN, FailedResult, describe_failure
from placet.hook.savers.saver import Saver, require_saver
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tool_call import Schemas, ToolCall
from placet.hook.turn_driver import NO_LONGER_NEEDED, TurnDriver, run_turn
from placet.hook.waiting import POLL_INTERVAL_S, SAFETY_INTERVAL_S, wait_for_case

if TYPE_CHECKING:
    from placet.hook.reviews import Reviews

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


class GateOptions(TypedDict, total=False):
    """What an adapter passes on to its gate; the defaults are those of Gate."""

    agent: str
    """The name under which cases are opened."""
    reviews: "Reviews | None"
    grants: GrantSource | None
    lease_for: timedelta
    """How long a call may run before another process may take its thread for dead."""
    clock: Callable[[], datetime]


class DecisionWait(TypedDict, total=False):
    """How long `wait_for_decisions` waits, in seconds, and how often it looks without events."""

    timeout: float | None
    poll_interval: float


class Gate(BlockingCaller):
    """Evaluates turns, stores decisions, and lets every call run at most once."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        saver: Saver,
        *,
        agent: str = "agent",
        reviews: "Reviews | None" = None,
        grants: GrantSource | None = None,
        lease_for: timedelta = DEFAULT_LEASE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._hooks = tuple(require_list("hooks", hooks, "a list of hooks, such as [hook]"))
        require_hooks(self._hooks, allows_none=True)
        require_saver(saver)
        require_text("agent", agent)
        require_reviews(reviews)
        require_grants(grants)
        require_duration("lease_for", lease_for)
        require_function("clock", clock, "a function that returns the time")
        super().__init__(
            may_block=saver.blocking or reviews is not None or grants is not None,
            awaits=has_async_hook(self._hooks),
        )
        self.saver = saver
        self.reviews = reviews
        self._cache = CheckpointCache(saver)
        self._opens_cases = reviews is not None
        self.outbox = ReceiptOutbox(name=agent, reviews=reviews, saver=saver, clock=clock)
        self._driver = TurnDriver(
            name=agent,
            hooks=self._hooks,
            reviews=reviews,
            grants=grants,
            clock=clock,
            nonce=generate_nonce(),
            outbox=self.outbox,
        )
        self._lease_for = lease_for
        self._clock = clock
        self._leases = CallLeases(lease_for, clock)
        self._heartbeat = Heartbeat(lease_for)

    def stop(
        self,
        key: str,
        calls: Sequence[ToolCall],
        *,
        state: State | None = None,
        schemas: Schemas | None = None,
        turn: int = 0,
        new: bool = False,
        requirements: Mapping[str, ReviewRequirement] | None = None,
        unsynced: bool = False,
        is_bound: bool = False,
    ) -> InterruptionMetadata | None:
        """Return the waiting calls of this turn, or None. Repeated, it returns the first result.

        Under a key whose outcome was delivered, the calls are new ones. With `new`, the turn is most
        likely new and is not looked up first. `requirements` calls are not evaluated again. `unsynced`:
        another write follows at once. `is_bound`: HookError if other calls were stopped under this key.
        """
        before = None if new and self._driver.grants is None else self._cache.find(key)
        if before is not None and before.checkpoint.stage != "ready":
            if is_bound:
                turns.require_same_calls(before.checkpoint, calls)
            return turns.show_interruption(before.checkpoint)
        rev = 1 if before is None else before.checkpoint.rev + 1
        asked = tuple(call.to_dict() for call in calls) if is_bound else ()
        steps = self._stop_steps(
            key, calls, requirements, rev, state or {}, schemas or {}, turn, unsynced, asked
        )
        try:
            stopped = self._run(steps)
        except CheckpointConflict:  # another caller stopped this turn, or released it
            return self.stop(
                key,
                calls,
                state=state,
                schemas=schemas,
                turn=turn,
                requirements=requirements,
                unsynced=unsynced,
                is_bound=is_bound,
            )
        return self.waiting(key) if stopped is None and new else stopped

    def _stop_steps(
        self,
        key: str,
        calls: Sequence[ToolCall],
        requirements: Mapping[str, ReviewRequirement] | None,
        rev: int,
        state: State,
        schemas: Schemas,
        turn: int,
        unsynced: bool,
        asked: tuple[dict[str, Any], ...],
    ) -> turns.TurnSteps[InterruptionMetadata | None]:
        stopped = yield from turns.stop(
            calls,
            thread_id=key,
            turn=turn,
            state=state,
            schemas=schemas,
            uses_grants=self._driver.grants is not None,
            requirements=requirements,
        )
        if stopped is None:
            return None
        thread = Checkpoint(
            thread_id=key,
            rev=rev,
            stage="paused",
            interruption=stopped.interruption,
            tools=schemas,
            asked=asked,
            granted=stopped.granted,
        )
        return (yield from turns.pause(thread, opens_cases=self._opens_cases, unsynced=unsynced))

    def waiting(self, key: str) -> InterruptionMetadata | None:
        """Return what was stopped under this key, with the decisions so far; None if nothing was."""
        saved = self._cache.find(key)
        return None if saved is None else turns.show_interruption(saved.checkpoint)

    def find_asked_call(self, key: str, call_id: str) -> ToolCall | None:
        """Return a call of a bound turn as it was asked about; None if it is not known."""
        checkpoint = self._cache.get_cached(key)
        return next((ToolCall(**call) for call in checkpoint.asked if call["id"] == call_id), None)

    def find_not_run_reason(self, key: str, call_id: str) -> NotRunReason | None:
        """Return why a call did not do its work; None if it did, or if that is still open."""
        state = turns.find_call_state(self._cache.get_cached(key), call_id)
        return None if state is None else turns.NOT_RUN.get(state)

    def find_ended_calls(self, key: str) -> set[str] | None:
        """Return the calls of a stopped turn whose results are known; None if nothing was stopped."""
        saved = self._cache.find(key)
        return None if saved is None else set(saved.checkpoint.results)

    def answer(
        self, key: str, feedback: Feedback | None, *, schemas: Schemas | None = None, unsynced: bool = False
    ) -> InterruptionMetadata:
        """Store decisions, all or some of them; raises InvalidFeedback, and then stores nothing.

        Without feedback, expired calls are rejected. The first decision on a call counts; a later one
        that contradicts it raises AlreadyDecided. An edit
        into another gated tool waits again: the returned interruption is a new one. `schemas` are the
        tools an edit may change to, by default those known when the turn was stopped. With
        `unsynced`, the caller starts the calls right after: complete decisions are on disk when a
        call starts.
        """
        feedback = materialize_answers(feedback)
        while True:
            checkpoint = self._cache.load(key).checkpoint
            turns.require_interruption(checkpoint)
            if checkpoint.stage != "paused":
                return turns.refuse_contradiction(checkpoint, feedback)
            known = checkpoint.tools if schemas is None else schemas
            try:
                answered = self._run(
                    turns.answer(checkpoint, feedback, schemas=known, opens_cases=self._opens_cases)
                )
                if isinstance(answered, InterruptionMetadata):
                    return answered
                self._cache.put(answered.thread, unsynced=unsynced and checkpoint.case is None)
            except CheckpointConflict:
                continue
            if answered.outdated_case is not None:
                self._driver.withdraw(answered.outdated_case)
            return turns.get_decided_calls(answered.thread)

    def wait_for_decisions(
        self, key: str, *, timeout: float | None = None, poll_interval: float = POLL_INTERVAL_S
    ) -> InterruptionMetadata:
        """Return the calls when all are decided or have expired, or as they are after `timeout` seconds.

        The decision of a case is noticed at once if the reviews report events; otherwise, and for answers
        given in code, every `poll_interval` seconds. While the reviews are unavailable, the calls wait.
        """
        ends = None if timeout is None else monotonic() + timeout
        while True:
            try:
                waiting = self.answer(key, None)
            except Unavailable as error:
                logger.warning("reviews_unavailable key=%s state=waiting error=%s", key, error)
                waiting = turns.show_interruption(self._cache.load(key).checkpoint) or self.answer(key, None)
            rest = SAFETY_INTERVAL_S if ends is None else ends - monotonic()
            if not waiting.undecided or rest <= 0:
                return waiting
            if waiting.expires_at is not None:
                rest = min(rest, max(0.0, (waiting.expires_at - self._clock()).total_seconds()))
            wait_for_case(self.reviews, waiting.case, rest, poll_interval=poll_interval)

    async def await_decisions(
        self, key: str, *, timeout: float | None = None, poll_interval: float = POLL_INTERVAL_S
    ) -> InterruptionMetadata:
        """Async version of `wait_for_decisions`."""
        waiting = partial(self.wait_for_decisions, key, timeout=timeout, poll_interval=poll_interval)
        with offer_event_loop(asyncio.get_running_loop()):
            decided: InterruptionMetadata = await self._workers.run(waiting)
        return decided

    def threads_of(
        self,
        resume: Callable[[str], Any],
        *,
        aresume: Callable[[str], Awaitable[Any]] | None = None,
        find_thread: Callable[[Checkpoint], str | None] | None = None,
    ) -> AgentThreads:
        """Return the stopped turns for `resume_pending`; `resume` continues the thread, or the key, it gets.

        `find_thread` returns the thread that a stored checkpoint belongs to, by default its key.
        """

        def find_key(checkpoint: Checkpoint) -> str | None:
            is_ours = checkpoint.interruption is not None and not checkpoint.agent
            return checkpoint.thread_id if is_ours else None

        async def resume_in_thread(thread_id: str) -> Any:
            return await self.run_blocking(partial(resume, thread_id))

        return AgentThreads(
            saver=self.saver,
            outbox=self.outbox,
            reviews=self.reviews,
            find_thread=find_thread or find_key,
            resume=resume,
            aresume=aresume or resume_in_thread,
        )

    def cancel(self, key: str, reason: str) -> InterruptionMetadata:
        """Let the waiting calls of the turn make way, even if they expired or were approved in part.

        Calls that needed no review get the `reason` as their result. A completely decided turn is not
        changed.
        """
        while True:
            checkpoint = self._cache.load(key).checkpoint
            if checkpoint.stage != "paused":
                return turns.get_decided_calls(checkpoint)
            following = turns.supersede(checkpoint.next(), reason)
            with suppress(CheckpointConflict):
                self._cache.put(following)
                if checkpoint.case is not None:
                    self._driver.withdraw(checkpoint.case)
                return turns.get_decided_calls(following)

    def supersede(self, key: str, calls: Collection[str], reason: str) -> dict[str, str]:
        """Let these calls make way, unless they have started; return the results of those that have one."""
        while True:
            self.cancel(key, reason)
            checkpoint = self._cache.load(key).checkpoint
            following = turns.supersede_decided(checkpoint.next(), calls, reason)
            with suppress(CheckpointConflict):
                if following.results != checkpoint.results:
                    self._cache.put(following, unsynced=True)
                    self._report(checkpoint, following)
                return turns.find_results(following, calls)

    def begin(
        self, key: str, call_id: str, *, repeatable: bool = False, interruption: str | None = None
    ) -> CallStart:
        """Claim one call. One caller may run it; a later one gets its result, a concurrent one ThreadBusy.

        A call whose process died is not run again, unless it is `repeatable`: at most once, or at
        least once. Where keys are reused, `interruption` says which one was decided: NothingToResume
        if it is over.
        """
        found = self.begin_all(key, {call_id: repeatable}, interruption=interruption)[call_id]
        if isinstance(found, ThreadBusy):
            raise found
        return found

    def begin_all(
        self,
        key: str,
        calls: Mapping[str, bool],
        *,
        interruption: str | None = None,
        owner: Hashable = None,
    ) -> dict[str, CallStart | ThreadBusy]:
        """Like `begin`, for calls that start together, in one write: call id -> whether it is repeatable.

        One `owner` at a time works on a turn; by default all users of this gate count as one owner.
        """
        busy = False
        while True:
            checkpoint = self._cache.get_cached(key)
            if checkpoint.stage == "paused":  # another process may have stored the decision
                checkpoint = self._cache.load(key).checkpoint
            stopped = turns.require_interruption(checkpoint)
            if interruption is not None and stopped.id != interruption:
                raise NothingToResume
            leased = busy
            if self._leases.needs_lease_check(checkpoint, calls, owner):
                saved = self._cache.load(key)
                if saved.checkpoint.rev != checkpoint.rev:
                    continue
                leased = busy or (saved.leased_until is not None and saved.leased_until > self._clock())
            plan = self._leases.plan(checkpoint, calls, owner, leased=leased)
            if not plan.runs and not plan.lost:
                return plan.found
            new, following = self._leases.take(key, owner, plan), plan.apply(checkpoint)
            lease_for = self._lease_for if self._leases.lease_of(key, owner).calls else None
            try:
                if plan.abandoned:
                    self._cache.claim(following, lease_for=lease_for)
                else:
                    self._cache.put(following, lease_for=lease_for, unsynced=not plan.runs)
            except BaseException as error:
                self._leases.undo(key, new)
                busy = isinstance(error, ThreadBusy)
                if not isinstance(error, CheckpointConflict | ThreadBusy):
                    raise
                continue
            self._leases.take_over(key, plan.abandoned)
            self._leases.end(key, plan.lost)
            self._report(checkpoint, following)
            return plan.outcomes()

    def finish(self, key: str, call_id: str, result: str) -> str:
        """Store the result of a call; returns the stored result, which is the first one."""
        return self.finish_all(key, {call_id: result})[call_id]

    def finish_all(self, key: str, results: Mapping[str, str]) -> dict[str, str]:
        """Like `finish`, for calls that end together, in one write: call id -> result."""
        while True:
            checkpoint = self._cache.get_cached(key)
            following = turns.finish_calls(checkpoint.next(), results)
            merged = following.results
            if len(merged) > len(checkpoint.results):
                self._report(checkpoint, following)
                lease_for = self._lease_for if set(checkpoint.started) - merged.keys() else None
                try:
                    self._cache.put(following, lease_for=lease_for, unsynced=True)
                except CheckpointConflict:
                    continue
            self._leases.end(key, results)
            return {call_id: merged[call_id] for call_id in results}

    def renewing_lease(self, key: str) -> AbstractContextManager[None]:
        """Return a context manager that renews the turn's lease while a call runs."""
        return self._heartbeat.renewing_latest(self._cache.saver, partial(self._cache.get_cached, key))

    def mark_delivered(self, key: str, interruption: str, said: str) -> None:
        """Mark the outcome as delivered.

        The key is free for new calls. Late callers get `said` as the result.
        """
        checkpoint = self._cache.load(key).checkpoint
        over = turns.require_interruption(checkpoint)
        if checkpoint.stage == "running" and over.id == interruption:
            self._report(checkpoint, turns.end_unclaimed_calls(checkpoint))
            results = {call.id: said for call in over.tool_feedbacks}
            with suppress(CheckpointConflict):
                self._cache.put(checkpoint.next(stage="ready", results=results, tools={}))

    def release(self, key: str) -> None:
        """Delete a turn that is over; approved calls that never started are reported as not claimed."""
        if self._opens_cases and (saved := self._cache.find(key)) is not None:
            checkpoint = saved.checkpoint
            if checkpoint.stage == "running":
                self._report(checkpoint, turns.end_unclaimed_calls(checkpoint))
        self._cache.release(key)

    def abandon(self, key: str) -> None:
        """Like `release`, and withdraw the case if the turn still waits."""
        saved = self._cache.find(key)
        if saved is not None and saved.checkpoint.stage == "paused" and saved.checkpoint.case is not None:
            self._driver.withdraw(saved.checkpoint.case, NO_LONGER_NEEDED)
        self.release(key)

    def abandon_lost(self, key: str) -> None:
        """Abandon a turn that the framework has lost, if it was stopped longer ago than a lease lasts.

        The framework will not make these calls again, so the case must not go on waiting for a decision.
        """
        saved = self._cache.find(key)
        stopped = None if saved is None else saved.checkpoint.interruption
        if saved is None or stopped is None or self._clock() - stopped.created_at < self._lease_for:
            return
        if turns.has_unclaimed_calls(saved.checkpoint):
            self.abandon(key)

    def undo_begin(self, key: str, call_id: str) -> None:
        """Return a started call to the waiting state; it is started again when it continues."""
        while True:
            checkpoint = self._cache.get_cached(key)
            following = turns.give_back_call(checkpoint.next(), call_id)
            open_calls = set(following.started) - set(checkpoint.results)
            try:
                self._cache.put(following, lease_for=self._lease_for if open_calls else None)
            except CheckpointConflict:
                continue
            self._leases.end(key, [call_id])
            return

    def mark_interrupted(self, key: str, call_id: str, *, repeatable: bool = False) -> None:
        """Record that a started call did not end, without waiting for its lease to expire."""
        if repeatable:
            self.undo_begin(key, call_id)
        else:
            self.finish(key, call_id, FailedResult(OUTCOME_UNKNOWN))

    def run_once(self, key: str, call_id: str, run: Callable[[], str], *, repeatable: bool = False) -> str:
        """Return the call's result, running it unless it ran before. An error is stored as its result."""
        begun = self.begin(key, call_id, repeatable=repeatable)
        if not begun.run:
            return begun.result
        try:
            result = run()
        except Exception as error:
            self.finish(key, call_id, describe_failure(error))
            raise
        except BaseException:
            self.mark_interrupted(key, call_id, repeatable=repeatable)
            raise
        return self.finish(key, call_id, result)

    async def arun_once(
        self, key: str, call_id: str, run: Callable[[], Awaitable[str]], *, repeatable: bool = False
    ) -> str:
        """Async version of `run_once`."""
        begun = await self.abegin(key, call_id, repeatable=repeatable)
        if not begun.run:
            return begun.result
        try:
            result = await run()
        except Exception as error:
            await self.run_blocking(partial(self.finish, key, call_id, describe_failure(error)))
            raise
        except asyncio.CancelledError:
            await self.run_blocking(partial(self.mark_interrupted, key, call_id, repeatable=repeatable))
            raise
        return await self.run_blocking(partial(self.finish, key, call_id, result))

    async def abegin(self, key: str, call_id: str, *, repeatable: bool = False) -> CallStart:
        """Async version of `begin`; a call that is cancelled while it starts has not started."""

        def give_back(begun: CallStart) -> None:
            if begun.run:
                self.undo_begin(key, call_id)

        return await self.run_blocking(
            partial(self.begin, key, call_id, repeatable=repeatable), on_cancel=give_back
        )

    def _report(self, before: Checkpoint, after: Checkpoint) -> None:
        """Report to the turn's case what became of the approved calls that ended meanwhile."""
        if after.case is not None:
            self._run(turns.report_ends(before, after))

    def _run(self, steps: turns.TurnSteps[T]) -> T:
        return run_turn(steps, self._perform)

    def _perform(self, effect: turns.TurnEffect) -> Any:
        if isinstance(effect, turns.SaveCheckpoint):
            self._cache.put(effect.checkpoint, unsynced=effect.unsynced)
            return None
        return self._driver.perform(effect)
