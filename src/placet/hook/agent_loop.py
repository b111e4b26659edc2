"""The agent loop without side effects: it yields effects and receives their results.

model → hooks → tools → model. Only the drivers in `driver` and `async_driver` act.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from placet.errors import CheckpointConflict, ModelMisbehaved, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import effects
from placet.hook.answer_validation import Feedback, materialize_answers, reject_undecided, validate_answers
from placet.hook.approval_rules import Hook, NewMessagePolicy
from placet.hook.call_evaluation import (
    evaluate_calls,
    interrupt_turn,
    record_granted_calls,
    reinterrupt_edits,
    reinterrupt_lapsed,
)
from placet.hook.case_outcome import CaseOutcome, check_against_case, is_expired
from placet.hook.checkpoint import Checkpoint, GrantedCalls
from placet.hook.events import AgentResult, ModelReplied, ToolAnswered, ToolJob
from placet.hook.feedback import Verdict
from placet.hook.frozen_values import replace
from placet.hook.grants import select_grantable
from placet.hook.interruption import InterruptionMetadata
from placet.hook.messages import (
    build_result_message,
    build_user_message,
    read_assistant_message,
    read_tool_calls,
)
from placet.hook.result_texts import CANCELLED_BY_MESSAGE, describe_result
from placet.hook.savers.saver import SavedCheckpoint
from placet.hook.thread_state import (
    PassedDecisions,
    apply_verdicts,
    build_inner_thread_id,
    count_replies,
    find_edited_calls,
    find_lost_calls,
    find_stored_outcome,
    group_jobs,
    mark_started,
    merge_inner_interruptions,
    plan_jobs,
    record_answered,
    refuse_contradiction,
    show_interruption,
    take_passed_decisions,
    take_queued_message,
    was_answered,
)
from placet.hook.tool_call import ToolCall
from placet.hook.tools import Tool, refuse_unusable_calls

NO_DECISIONS: PassedDecisions = MappingProxyType({})


class AgentLoop:
    """One agent's loop through its turns."""

    def __init__(
        self,
        name: str,
        tools: Mapping[str, Tool],
        hooks: Sequence[Hook],
        *,
        opens_cases: bool = False,
        uses_grants: bool = False,
        emits_events: bool = False,
        max_turns: int = 50,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self.tools = tools
        self.hooks = hooks
        self.opens_cases = opens_cases
        self.uses_grants = uses_grants
        self.emits_events = emits_events
        self.max_turns = max_turns
        self.clock = clock
        self.schemas = {tool.name: tool.schema for tool in tools.values()}
        self._empty = Checkpoint(thread_id="", agent=name)
        self.agents = {tool.name: tool.agent.name for tool in tools.values() if tool.agent is not None}

    def begin(self, text: str) -> effects.LoopSteps:
        """Take a message in a new thread with a random id."""
        thread_id = os.urandom(16).hex()
        return self._run_turns(
            replace(self._empty, thread_id=thread_id, messages=(build_user_message(text),))
        )

    def invoke(self, thread_id: str, text: str) -> effects.LoopSteps:
        """Take a message; ends with the result, or with the calls that wait for a reviewer."""
        saved: SavedCheckpoint | None = yield effects.LoadCheckpoint(thread_id)
        checkpoint = self._check_owner(saved) if saved else Checkpoint(thread_id=thread_id, agent=self.name)
        if checkpoint.stage == "paused":
            taken = yield from self._message_while_paused(checkpoint, text)
            if isinstance(taken, InterruptionMetadata):
                return taken
            checkpoint = taken
        elif saved and checkpoint.stage == "running":
            recovered = yield from self._recover(saved)
            if isinstance(recovered, InterruptionMetadata):
                raise ThreadPaused
            checkpoint = recovered
        messages = (*checkpoint.messages, build_user_message(text))
        return (yield from self._run_turns(replace(checkpoint, messages=messages)))

    def resume(
        self, thread_id: str, feedback: Feedback | None = None, *, passed: PassedDecisions = NO_DECISIONS
    ) -> effects.LoopSteps:
        """Take answers, or none: then expired calls are ended, and a thread whose process died is taken over.

        Decisions in `passed` were made, in time, through the outer agent.
        """
        feedback = materialize_answers(feedback)
        while True:
            saved: SavedCheckpoint | None = yield effects.LoadCheckpoint(thread_id)
            if saved is None:
                raise NothingToResume
            checkpoint = self._check_owner(saved)
            if was_answered(checkpoint, feedback):
                refuse_contradiction(checkpoint, feedback)
                return find_stored_outcome(checkpoint, feedback)
            if checkpoint.stage == "running":
                refuse_contradiction(checkpoint, feedback)
                going = yield from self._recover(saved)
            else:
                try:
                    going = yield from self._apply_answers(checkpoint, feedback, passed)
                except CheckpointConflict:
                    continue
                if not isinstance(going, InterruptionMetadata):
                    going = yield from self._run_calls(going)
            if isinstance(going, InterruptionMetadata):
                return going
            return (yield from self._run_turns(going))

    def run_inside(
        self, thread_id: str, text: str, decisions: PassedDecisions, *, begins: bool
    ) -> effects.LoopSteps:
        """Run as an inner agent: begin, recover or answer, depending on the state of its thread.

        When it `begins`, an existing thread with this id belongs to a deleted outer thread of the
        same id.
        """
        saved: SavedCheckpoint | None = yield effects.LoadCheckpoint(thread_id)
        if begins and saved is not None:
            yield effects.ReleaseThread(thread_id)
        if saved is None or begins:
            return (yield from self.invoke(thread_id, text))
        if saved.checkpoint.stage == "ready":
            return find_stored_outcome(saved.checkpoint)
        return (yield from self.resume(thread_id, passed=decisions))

    def _run_turns(self, checkpoint: Checkpoint) -> effects.LoopSteps:
        for _ in range(self.max_turns):
            reply = yield effects.CallModel(checkpoint.messages)
            message, calls, unreadable = read_assistant_message(reply, checkpoint.messages)
            if self.emits_events:
                yield effects.EmitEvents((ModelReplied(message=message),))
            checkpoint = replace(checkpoint, messages=(*checkpoint.messages, message))
            if not calls:
                if not checkpoint.queued:
                    return (yield from self._finish(checkpoint))
                checkpoint = yield from self._take_queued(checkpoint)
                continue
            going = yield from self._handle_calls(checkpoint, calls, unreadable)
            if isinstance(going, InterruptionMetadata):
                return going
            checkpoint = going
        yield effects.SaveCheckpoint(checkpoint.next(stage="ready"))
        raise ModelMisbehaved(f"The model was still calling tools after {self.max_turns} turns (max_turns).")

    def _handle_calls(
        self, checkpoint: Checkpoint, calls: list[ToolCall], unreadable: Mapping[str, str]
    ) -> effects.LoopPart:
        refused = refuse_unusable_calls(self.tools, calls, unreadable)
        usable = [call for call in calls if call.id not in refused]
        state, turn = {"messages": checkpoint.messages}, count_replies(checkpoint)
        requirements = yield from evaluate_calls(self.hooks, usable, state)
        covered: Mapping[str, str] = {}
        if self.uses_grants and (asked := select_grantable(usable, requirements)):
            covered = yield effects.UseGrants(asked, checkpoint.thread_id, turn)
        interruption = interrupt_turn(
            requirements,
            usable,
            thread_id=checkpoint.thread_id,
            turn=turn,
            state=state,
            schemas=self.schemas,
            now=self.clock(),
            covered=covered,
        )
        if interruption is not None:
            granted = record_granted_calls(requirements, usable, covered, self.schemas) if covered else {}
            return (yield from self._pause(checkpoint, interruption, results=refused, granted=granted))
        checkpoint = checkpoint.next(stage="running", interruption=None, started=(), results=refused)
        checkpoint = self._mark_first_started(checkpoint)
        yield effects.SaveCheckpoint(checkpoint, leased=True)
        return (yield from self._run_calls(checkpoint))

    def _run_calls(self, checkpoint: Checkpoint, *, begins: bool = True) -> effects.LoopPart:
        """Run the calls of the last message, and append their results to the thread in call order.

        The first calls are marked as started. The next ones start, and are marked, when those have ended.
        """
        calls = read_tool_calls(checkpoint.messages[-1])
        results, jobs = plan_jobs(checkpoint, calls, self.tools, begins=begins)
        checkpoint = replace(checkpoint, results=results)
        for number, group in enumerate(group_jobs(jobs)):
            if number:
                checkpoint = mark_started(checkpoint.next(), group)
                yield effects.SaveCheckpoint(checkpoint, leased=True)
            stopped, checkpoint = yield from self._await_jobs(checkpoint, group, calls)
            if stopped:
                return (yield from self._pause_for_inner(checkpoint, stopped))
        return (yield from self._append_results(checkpoint, calls, checkpoint.results))

    def _mark_first_started(self, checkpoint: Checkpoint) -> Checkpoint:
        _, jobs = plan_jobs(checkpoint, read_tool_calls(checkpoint.messages[-1]), self.tools, begins=True)
        return mark_started(checkpoint, group_jobs(jobs)[0]) if jobs else checkpoint

    def _await_jobs(
        self, checkpoint: Checkpoint, jobs: Sequence[ToolJob], calls: Sequence[ToolCall]
    ) -> Generator[effects.Effect, Any, tuple[dict[str, InterruptionMetadata], Checkpoint]]:
        """Wait for all jobs; errors are raised after the results of the other jobs are saved."""
        asked, ran = {call.id: call for call in calls}, {job.call.id: job.call for job in jobs}
        stopped: dict[str, InterruptionMetadata] = {}
        broken: dict[str, BaseException] = {}
        ended: Mapping[str, Any] = (yield effects.RunTools(jobs, checkpoint)) if jobs else {}
        while True:
            answers: dict[str, str] = {}
            for call_id, result in ended.items():
                if isinstance(result, str):
                    answers[call_id] = describe_result(asked[call_id], ran.pop(call_id), result)
                elif isinstance(result, InterruptionMetadata):
                    stopped[call_id] = result
                else:
                    broken[call_id] = result
            checkpoint = replace(checkpoint, results={**checkpoint.results, **answers})
            over = len(ran) == len(stopped) + len(broken)
            if broken and (over or not all(isinstance(error, Exception) for error in broken.values())):
                yield effects.SaveCheckpoint(checkpoint.next())
                raise next(iter(broken.values()))
            if len(ran) == len(stopped):
                return stopped, checkpoint
            checkpoint = checkpoint.next()
            yield effects.SaveCheckpoint(checkpoint, leased=True, unsynced=True)
            ended = yield effects.AwaitTools(checkpoint)

    def _append_results(
        self, checkpoint: Checkpoint, calls: Sequence[ToolCall], results: Mapping[str, str]
    ) -> effects.LoopPart:
        after = (*checkpoint.messages, *(build_result_message(call, results[call.id]) for call in calls))
        ran = apply_verdicts(checkpoint, calls) if self.agents else ()
        inside = [build_inner_thread_id(checkpoint, call) for call in ran if call.name in self.agents]
        checkpoint = record_answered(checkpoint, len(after)).next(
            stage="running", messages=after, interruption=None, verdicts={}, started=(), results={},
            granted={}, changed={}, case=None,
        )  # fmt: skip
        yield effects.SaveCheckpoint(checkpoint, leased=True, unsynced=not inside)
        for thread_id in inside:
            yield effects.ReleaseThread(thread_id)
        if self.emits_events:
            yield effects.EmitEvents([ToolAnswered(call=call, content=results[call.id]) for call in calls])
        return checkpoint

    def _apply_answers(
        self, checkpoint: Checkpoint, feedback: Feedback | None, passed: PassedDecisions
    ) -> effects.LoopPart:
        """Save the answers; claim the thread when they are complete, otherwise it stays paused."""
        interruption = checkpoint.interruption
        if checkpoint.stage != "paused" or interruption is None:
            raise NothingToResume
        outcome: CaseOutcome | None = None
        if checkpoint.case is not None:
            outcome = yield effects.PollCase(checkpoint.case)
            if feedback is None and is_expired(outcome) and interruption.default == "hold":
                again_from = checkpoint.case["attempt"] + 1
                return (yield from self._open_case(replace(checkpoint, case=None), attempt=again_from))
        verdicts = take_passed_decisions(checkpoint, passed)
        verdicts = verdicts or self._collect_verdicts(checkpoint, interruption, feedback, outcome)
        if verdicts is None:
            return (yield from self._open_and_poll_case(checkpoint, passed))
        now = self.clock()
        again, verdicts = yield from reinterrupt_edits(
            self.hooks, interruption, verdicts, schemas=self.schemas, now=now
        )
        granted: GrantedCalls = checkpoint.granted
        if granted and len(verdicts) == len(again.tool_feedbacks):
            again, granted = reinterrupt_lapsed(
                again, granted, (yield effects.RecheckGrants(granted)), now=now
            )
        if len(verdicts) < len(again.tool_feedbacks):
            outdated = checkpoint.case if again is not interruption else None
            checkpoint = checkpoint.next(
                interruption=again,
                verdicts=verdicts,
                granted=granted,
                case=None if outdated else checkpoint.case,
            )
            yield effects.SaveCheckpoint(checkpoint)
            if outdated is not None and feedback is not None:
                yield effects.WithdrawCase(outdated)
            return (yield from self._open_case(checkpoint))
        checkpoint = checkpoint.next(stage="running", interruption=again, verdicts=verdicts, started=())
        checkpoint = self._mark_first_started(checkpoint)
        yield effects.ClaimThread(checkpoint)
        if checkpoint.case is not None and feedback is not None:
            yield effects.WithdrawCase(checkpoint.case)
        return checkpoint

    def _collect_verdicts(
        self,
        checkpoint: Checkpoint,
        interruption: InterruptionMetadata,
        feedback: Feedback | None,
        outcome: CaseOutcome | None,
    ) -> Mapping[str, Verdict] | None:
        """Return all decisions so far, or None if nothing is new. If a case is open, its expiry counts."""
        decided, now = checkpoint.verdicts, self.clock()
        if feedback is not None:
            given = validate_answers(interruption, feedback, decided=decided, schemas=self.schemas, now=now)
            return check_against_case(given, outcome, interruption, decided, self.schemas)
        if checkpoint.case is not None:
            return None if outcome is None else outcome.to_verdicts(interruption, decided, self.schemas)
        late = interruption.expires_at is not None and now >= interruption.expires_at
        return reject_undecided(interruption, decided) if late and interruption.default == "reject" else None

    def _open_case(
        self, checkpoint: Checkpoint, *, attempt: int = 0
    ) -> Generator[effects.Effect, Any, InterruptionMetadata]:
        """Return the waiting calls with their case, which is opened if it is not open yet."""
        interruption, case = checkpoint.interruption, checkpoint.case
        if interruption is None:
            raise NothingToResume
        interruption = interruption.with_verdicts(checkpoint.verdicts)
        if (
            self.opens_cases
            and case is None
            and (opened := (yield effects.OpenCase(interruption, attempt))) is not None
        ):
            case = {**opened, "attempt": attempt}
            with suppress(CheckpointConflict):  # a faster process stored the same case, or an answer
                yield effects.SaveCheckpoint(checkpoint.next(case=case))
        return interruption if case is interruption.case else replace(interruption, case=case)

    def _open_and_poll_case(self, checkpoint: Checkpoint, passed: PassedDecisions) -> effects.LoopPart:
        """Like `_open_case`, but also apply its outcome: a process that died may have opened it before."""
        waiting = yield from self._open_case(checkpoint)
        if (
            checkpoint.case is not None
            or waiting.case is None
            or (yield effects.PollCase(waiting.case)) is None
        ):
            return waiting
        return (yield from self._apply_answers(checkpoint.next(case=waiting.case), None, passed))

    def _pause(
        self, checkpoint: Checkpoint, interruption: InterruptionMetadata, **changes: Any
    ) -> Generator[effects.Effect, Any, InterruptionMetadata]:
        changes = {"started": (), "case": None, "granted": {}, **changes}
        checkpoint = checkpoint.next(stage="paused", interruption=interruption, verdicts={}, **changes)
        yield effects.SaveCheckpoint(checkpoint)
        return (yield from self._open_case(checkpoint)) if self.opens_cases else interruption

    def _pause_for_inner(
        self, checkpoint: Checkpoint, stopped: Mapping[str, InterruptionMetadata]
    ) -> Generator[effects.Effect, Any, InterruptionMetadata]:
        interruption = merge_inner_interruptions(checkpoint, stopped, agents=self.agents, now=self.clock())
        changed = find_edited_calls(checkpoint)
        checkpoint = record_answered(checkpoint, len(checkpoint.messages))
        return (yield from self._pause(checkpoint, interruption, results=checkpoint.results, changed=changed))

    def _recover(self, saved: SavedCheckpoint) -> effects.LoopPart:
        """Take over from a dead process.

        A call that may have run is not run again, unless it is repeatable.
        """
        if saved.leased_until is not None and saved.leased_until > self.clock():
            raise ThreadBusy
        checkpoint = saved.checkpoint
        calls = read_tool_calls(checkpoint.messages[-1])
        results = {**checkpoint.results, **find_lost_calls(checkpoint, calls, self.tools)}
        checkpoint = self._mark_first_started(checkpoint.next(results=results))
        yield effects.ClaimThread(checkpoint)
        return (yield from self._run_calls(checkpoint, begins=False)) if calls else checkpoint

    def _message_while_paused(self, checkpoint: Checkpoint, text: str) -> effects.LoopPart:
        choice = self._on_new_message()
        if checkpoint.interruption is None or choice == "refuse":
            raise ThreadPaused
        if choice == "queue":
            yield effects.SaveCheckpoint(checkpoint.next(queued=(*checkpoint.queued, text)))
            return show_interruption(checkpoint, checkpoint.interruption)
        calls = read_tool_calls(checkpoint.messages[-1])
        results = {call.id: checkpoint.results.get(call.id, CANCELLED_BY_MESSAGE) for call in calls}
        following = yield from self._append_results(checkpoint, calls, results)
        if checkpoint.case is not None:
            yield effects.WithdrawCase(checkpoint.case)
        return following

    def _on_new_message(self) -> NewMessagePolicy:
        choices: set[NewMessagePolicy] = {getattr(hook, "on_new_message", "refuse") for hook in self.hooks}
        return choices.pop() if len(choices) == 1 else "refuse"

    def _finish(self, checkpoint: Checkpoint) -> effects.LoopSteps:
        checkpoint = checkpoint.next(stage="ready", interruption=None)
        yield effects.SaveCheckpoint(checkpoint)
        return AgentResult(thread_id=checkpoint.thread_id, messages=checkpoint.messages)

    def _take_queued(self, checkpoint: Checkpoint) -> Generator[effects.Effect, Any, Checkpoint]:
        checkpoint = take_queued_message(checkpoint)
        yield effects.SaveCheckpoint(checkpoint, leased=True)
        return checkpoint

    def _check_owner(self, saved: SavedCheckpoint) -> Checkpoint:
        if saved.checkpoint.agent != self.name:
            raise NothingToResume(f"This thread belongs to the agent {saved.checkpoint.agent}.")
        return saved.checkpoint
