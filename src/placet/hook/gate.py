"""The gate that every framework's adapter shares: stop a turn once, keep its answers, run each call once.

An adapter says what its framework is about to call, and does what the verdicts say; the framework's own
thread, messages and loop stay its own. Everything here is kept in a Saver, under a key that the adapter
derives from the framework's thread and turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from placet.errors import CheckpointConflict, NothingToResume, ThreadBusy, Unavailable
from placet.hook.answer_validation import Feedback, reject_undecided, validate_answers
from placet.hook.blocking import BlockingCaller
from placet.hook.call_leases import CallLeases, CallStart
from placet.hook.case_outcome import CaseOutcome, check_against_case, is_expired
from placet.hook.checkpoint import Checkpoint
from placet.hook.checkpoint_cache import CheckpointCache
from placet.hook.feedback import ToolFeedback, Verdict
from placet.hook.frozen_values import replace
from placet.hook.gate_cases import DECIDED_ELSEWHERE, NO_LONGER_NEEDED, GateCases
from placet.hook.grants import GrantSource, new_nonce, recheck_grants, select_grantable, use_grants
from placet.hook.heartbeat import Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.policy import Hook, ReviewRequirement, State
from placet.hook.result_texts import OUTCOME_UNKNOWN, describe_failure
from placet.hook.savers.saver import Saver
from placet.hook.tool_call import ToolCall
from placet.hook.turn import (
    Schemas,
    evaluate_calls,
    interrupt_turn,
    record_granted_calls,
    reinterrupt_edits,
    reinterrupt_lapsed,
)

if TYPE_CHECKING:
    from placet.hook.reviews import Reviews

P = ParamSpec("P")
T = TypeVar("T")
DEFAULT_LEASE = timedelta(minutes=5)
"""How long a call may run before another process may take its thread for dead."""


class ApprovalGate(BlockingCaller):
    """Judges turns, keeps what people answered, and lets every call run at most new_nonce."""

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
        self._hooks = tuple(hooks)
        super().__init__(may_block=saver.blocking or reviews is not None or grants is not None)
        self._seen = CheckpointCache(saver)
        self._agent = agent
        self._people = GateCases(reviews, agent)
        self._grants = grants
        self._since = new_nonce()
        self._lease_for = lease_for
        self._clock = clock
        self._holds = CallLeases(lease_for, clock)
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
        judged: Mapping[str, ReviewRequirement] | None = None,
        soon: bool = False,
    ) -> InterruptionMetadata | None:
        """The calls of this turn that wait for a person, or None. Asked again, the first judgement stands.

        Under a key whose outcome was handed out, the calls are new ones. A turn that is most likely `new` is
        not looked for before. `judged` calls are not judged anew. `soon`: something else is kept right after.
        """
        before = None if new and self._grants is None else self._seen.look(key)
        if before is not None and before.checkpoint.stage != "ready":
            return _current_interruption(before.checkpoint)
        rev = 1 if before is None else before.checkpoint.rev + 1
        state = state or {}
        gates = evaluate_calls(self._hooks, calls, state, schemas) if judged is None else judged
        tools, granted = schemas or {}, self._covered(key, calls, gates, turn)
        interruption = interrupt_turn(
            gates,
            calls,
            thread_id=key,
            turn=turn,
            state=state,
            schemas=tools,
            now=self._clock(),
            covered=granted,
        )
        if interruption is None:
            return self.waiting(key) if new else None
        checkpoint = Checkpoint(
            thread_id=key,
            rev=rev,
            stage="paused",
            interruption=interruption,
            tools=tools,
            granted=record_granted_calls(gates, calls, granted, tools),
        )
        try:
            self._seen.put(checkpoint, soon=soon)
        except CheckpointConflict:
            again = partial(self.stop, state=state, schemas=schemas, turn=turn, judged=gates, soon=soon)
            return self.waiting(key) or again(key, calls)
        return self._asked(checkpoint)

    def waiting(self, key: str) -> InterruptionMetadata | None:
        """What was stopped under this key, showing the decisions so far; None if nothing was."""
        kept = self._seen.look(key)
        return None if kept is None else _current_interruption(kept.checkpoint)

    def answer(
        self, key: str, feedback: Feedback | None, *, schemas: Schemas | None = None, soon: bool = False
    ) -> InterruptionMetadata:
        """Keep what a person decided, all of it or a part; raises InvalidFeedback, and then keeps nothing.

        Without feedback, calls whose time is over are rejected. The first decision of a call stands. An edit
        into another tool that is gated itself waits again: the interruption that comes back is a new one.
        `schemas` are the tools it may lead to, by default those known when the turn was stopped. `soon` is
        for one who begins the calls right after: decisions that are complete are on disk when a call begins.
        """
        while True:
            checkpoint = self._seen.kept(key).checkpoint
            interruption = _require_interruption(checkpoint)
            if checkpoint.stage != "paused":
                return interruption.with_verdicts(checkpoint.verdicts)
            ruling, case = self._people.said(checkpoint), checkpoint.case or {}
            if feedback is None and is_expired(ruling) and interruption.default == "hold":
                return self._asked(replace(checkpoint, case=None), attempt=case.get("attempt", 0) + 1)
            known = checkpoint.tools if schemas is None else schemas
            verdicts = self._decided(checkpoint, feedback, ruling, known)
            again, verdicts = reinterrupt_edits(
                self._hooks, interruption, verdicts, schemas=known, now=self._clock()
            )
            if feedback is None and again is interruption and verdicts == checkpoint.verdicts:
                return self._asked(checkpoint)
            granted = checkpoint.granted
            if granted and len(verdicts) == len(again.tool_feedbacks):
                held = recheck_grants(self._grants, granted)
                again, granted = reinterrupt_lapsed(again, granted, held, now=self._clock())
            complete = len(verdicts) == len(again.tool_feedbacks)
            following = checkpoint.next(
                verdicts=verdicts,
                granted=granted,
                stage="running" if complete else "paused",
                interruption=again,
                tools={} if complete else checkpoint.tools,  # nothing can be edited any more
                case=checkpoint.case if again is interruption else None,
            )
            try:
                self._seen.put(following, soon=soon and complete and checkpoint.case is None)
            except CheckpointConflict:
                continue
            if feedback is not None and (complete or again is not interruption):
                self._people.no_longer(checkpoint, DECIDED_ELSEWHERE)
            return again.with_verdicts(verdicts) if complete else self._asked(following)

    def cancel(self, key: str, reason: str) -> InterruptionMetadata:
        """Let none of the turn run, however late it is and whatever was allowed: its calls are rejected.

        Those that needed nobody answer with the `reason`. A turn that is complete goes on as it was decided.
        """
        while True:
            checkpoint = self._seen.kept(key).checkpoint
            interruption = _require_interruption(checkpoint)
            if checkpoint.stage != "paused":
                return interruption.with_verdicts(checkpoint.verdicts)
            verdicts = reject_undecided(interruption, {}, reason=reason)
            results = {call.id: reason for call in interruption.tools_automatically_approved}
            over = checkpoint.next(stage="running", verdicts=verdicts, results=results, tools={}, granted={})
            with suppress(CheckpointConflict):
                self._seen.put(over)
                self._people.no_longer(checkpoint, DECIDED_ELSEWHERE)
                return interruption.with_verdicts(verdicts)

    def decided(self, key: str, call_id: str) -> ToolFeedback | None:
        """The call with its decision; None if it was never stopped. An edit's call is the one to run."""
        waiting = self.waiting(key)
        found = () if waiting is None else waiting.tool_feedbacks
        return next((feedback for feedback in found if feedback.id == call_id), None)

    def begin(
        self, key: str, call_id: str, *, repeatable: bool = False, interruption: str | None = None
    ) -> CallStart:
        """Claim one call. One caller may run it; a later one gets its result, a concurrent one ThreadBusy.

        A call whose process died is not run again, unless it is `repeatable`: at most once, or at least once.
        Where keys are used again, `interruption` says which one was decided: NothingToResume if it is over.
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
        """As `begin`, for calls that begin together, in one write: call -> whether it is repeatable.

        One `owner` at a time works on a turn; by default all who share this gate are one.
        """
        busy = False
        while True:
            checkpoint = self._seen.last(key)
            if interruption is not None and _require_interruption(checkpoint).id != interruption:
                raise NothingToResume
            leased = busy
            if self._holds.needs_lease(checkpoint, calls, owner):
                kept = self._seen.kept(key)
                if kept.checkpoint.rev != checkpoint.rev:
                    continue
                leased = busy or (kept.leased_until is not None and kept.leased_until > self._clock())
            beginning = self._holds.beginning(checkpoint, calls, owner, leased=leased)
            if not beginning.runs and not beginning.lost:
                return beginning.found
            new = self._holds.take(key, owner, beginning)
            lease_for = self._lease_for if self._holds.of(key, owner).calls else None
            try:
                if beginning.abandoned:
                    self._seen.claim(beginning.after(checkpoint), lease_for=lease_for)
                else:
                    self._seen.put(beginning.after(checkpoint), lease_for=lease_for, soon=not beginning.runs)
            except BaseException as error:
                self._holds.not_begun(key, new)
                busy = isinstance(error, ThreadBusy)
                if not isinstance(error, CheckpointConflict | ThreadBusy):
                    raise
                continue
            self._holds.took_over(key, beginning.abandoned)
            self._holds.ended(key, beginning.lost)
            return beginning.told()

    def finish(self, key: str, call_id: str, result: str) -> str:
        """Keep what a call answered; returns what is kept, which is the first answer."""
        return self.finish_all(key, {call_id: result})[call_id]

    def finish_all(self, key: str, results: Mapping[str, str]) -> dict[str, str]:
        """As `finish`, for calls that end together, in one write: call -> what it answered."""
        while True:
            checkpoint = self._seen.last(key)
            kept = {**results, **checkpoint.results}
            if len(kept) > len(checkpoint.results):
                lease_for = self._lease_for if set(checkpoint.started) - kept.keys() else None
                try:
                    self._seen.put(checkpoint.next(results=kept), lease_for=lease_for, soon=True)
                except CheckpointConflict:
                    continue
            self._holds.ended(key, results)
            return {call_id: kept[call_id] for call_id in results}

    def alive(self, key: str) -> AbstractContextManager[None]:
        """However long a call runs that was begun, nobody takes it for one whose process died."""
        return self._heartbeat.holding_newest(self._seen.saver, partial(self._seen.last, key))

    def hand_out(self, key: str, interruption: str, said: str) -> None:
        """Nobody needs its outcome any more: the key is free for new calls. Who comes late is told `said`."""
        checkpoint = self._seen.kept(key).checkpoint
        over = _require_interruption(checkpoint)
        if checkpoint.stage == "running" and over.id == interruption:
            told = {call.id: said for call in over.tool_feedbacks}
            with suppress(CheckpointConflict):
                self._seen.put(checkpoint.next(stage="ready", results=told, tools={}))

    def release(self, key: str) -> None:
        """Forget a turn that is over."""
        self._seen.release(key)

    def abandon(self, key: str) -> None:
        """As `release`; if the turn waits still, the person need not decide it any more."""
        kept = self._seen.look(key)
        if kept is not None and kept.checkpoint.stage == "paused":
            self._people.no_longer(kept.checkpoint, NO_LONGER_NEEDED)
        self.release(key)

    def set_aside(self, key: str, call_id: str) -> None:
        """Give back a call that was begun and now waits itself; it is begun anew when it goes on."""
        while True:
            checkpoint = self._seen.last(key)
            started = tuple(each for each in checkpoint.started if each != call_id)
            open_calls = set(started) - set(checkpoint.results)
            try:
                self._seen.put(
                    checkpoint.next(started=started), lease_for=self._lease_for if open_calls else None
                )
            except CheckpointConflict:
                continue
            self._holds.ended(key, [call_id])
            return

    def cut_off(self, key: str, call_id: str, *, repeatable: bool = False) -> None:
        """A call was begun and did not come to its end: say so at once, not when its lease is over."""
        if repeatable:
            self.set_aside(key, call_id)
        else:
            self.finish(key, call_id, OUTCOME_UNKNOWN)

    def run_once(self, key: str, call_id: str, run: Callable[[], str], *, repeatable: bool = False) -> str:
        """What the call answers, having run it unless it ran before. What it raises is kept as its answer."""
        begun = self.begin(key, call_id, repeatable=repeatable)
        if not begun.run:
            return begun.result
        try:
            result = run()
        except Exception as error:
            self.finish(key, call_id, describe_failure(error))
            raise
        except BaseException:
            self.cut_off(key, call_id, repeatable=repeatable)
            raise
        return self.finish(key, call_id, result)

    async def arun_once(
        self, key: str, call_id: str, run: Callable[[], Awaitable[str]], *, repeatable: bool = False
    ) -> str:
        """As `run_once`, on an event loop."""
        begun = await self.abegin(key, call_id, repeatable=repeatable)
        if not begun.run:
            return begun.result
        try:
            result = await run()
        except Exception as error:
            await self.run_blocking(partial(self.finish, key, call_id, describe_failure(error)))
            raise
        except asyncio.CancelledError:
            await self.run_blocking(partial(self.cut_off, key, call_id, repeatable=repeatable))
            raise
        return await self.run_blocking(partial(self.finish, key, call_id, result))

    async def abegin(self, key: str, call_id: str, *, repeatable: bool = False) -> CallStart:
        """As `begin`, on an event loop; a call that is cancelled while it begins has not begun."""

        def give_back(begun: CallStart) -> None:
            if begun.run:
                self.set_aside(key, call_id)

        return await self.run_blocking(
            partial(self.begin, key, call_id, repeatable=repeatable), on_cancel=give_back
        )

    def _covered(
        self, key: str, calls: Sequence[ToolCall], gates: Mapping[str, ReviewRequirement], turn: int
    ) -> Mapping[str, str]:
        if self._grants is None or not gates:
            return {}
        asked = select_grantable(calls, gates)
        return use_grants(self._grants, asked, agent=self._agent, thread_id=key, turn=turn, when=self._since)

    def _decided(
        self, checkpoint: Checkpoint, feedback: Feedback | None, ruling: CaseOutcome | None, schemas: Schemas
    ) -> Mapping[str, Verdict]:
        """All decisions so far. Where a case was opened, its clock rules."""
        interruption, kept, now = _require_interruption(checkpoint), checkpoint.verdicts, self._clock()
        if feedback is not None:
            given = validate_answers(interruption, feedback, decided=kept, schemas=schemas, now=now)
            return check_against_case(given, ruling, interruption, kept, schemas)
        if checkpoint.case is not None:
            return kept if ruling is None else ruling.verdicts(interruption, kept, schemas)
        late = interruption.expires_at is not None and now >= interruption.expires_at
        return reject_undecided(interruption, kept) if late and interruption.default == "reject" else kept

    def _asked(self, checkpoint: Checkpoint, *, attempt: int = 0) -> InterruptionMetadata:
        """The calls that wait, with the case where a person finds them; it is opened if it is not yet."""
        interruption = _require_interruption(checkpoint).with_verdicts(checkpoint.verdicts)
        case = checkpoint.case
        if case is None and (case := self._people.ask(interruption, attempt)) is not None:
            # Who was faster has the same case, or an answer; what was not kept is asked for again, once.
            with suppress(CheckpointConflict, Unavailable):
                self._seen.put(checkpoint.next(case=case))
        return replace(interruption, case=case)


def _require_interruption(checkpoint: Checkpoint) -> InterruptionMetadata:
    if checkpoint.interruption is None:
        raise NothingToResume
    return checkpoint.interruption


def _current_interruption(checkpoint: Checkpoint) -> InterruptionMetadata | None:
    stopped, case = checkpoint.interruption, checkpoint.case
    return None if stopped is None else replace(stopped.with_verdicts(checkpoint.verdicts), case=case)
