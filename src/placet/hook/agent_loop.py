"""The agent loop without side effects: it yields effects and receives their results.

model → hooks → tools → model. Only the drivers in `driver` and `async_driver` act.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from placet.errors import CheckpointConflict, ModelMisbehaved, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import effects, turn
from placet.hook.answer_validation import Feedback, materialize_answers
from placet.hook.approval_rules import Hook, find_new_message_policy
from placet.hook.checkpoint import Checkpoint, Message
from placet.hook.events import AgentResult, ModelReplied, ToolAnswered, ToolJob
from placet.hook.frozen_values import replace
from placet.hook.interruption import InterruptionMetadata
from placet.hook.messages import (
    build_result_message,
    build_user_message,
    read_assistant_message,
    read_tool_calls,
)
from placet.hook.result_texts import CANCELLED_BY_MESSAGE, describe_refusal, describe_result
from placet.hook.savers.saver import SavedCheckpoint
from placet.hook.thread_state import (
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
    take_queued_message,
    was_answered,
)
from placet.hook.tool_call import ToolCall
from placet.hook.tools import Tool, refuse_unusable_calls


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
        has_steps: bool = False,
        max_turns: int = 50,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self.tools = tools
        self.hooks = hooks
        self.opens_cases = opens_cases
        self.uses_grants = uses_grants
        self.emits_events = emits_events
        self.has_steps = has_steps
        self.max_turns = max_turns
        self.clock = clock
        self.schemas = {tool.name: tool.schema for tool in tools.values()}
        self._empty = Checkpoint(thread_id="", agent=name)
        self.agents = {tool.name: tool.agent.name for tool in tools.values() if tool.agent is not None}

    def begin(self, text: str) -> effects.LoopSteps:
        """Take a message in a new thread with a random id."""
        checkpoint = replace(
            self._empty, thread_id=os.urandom(16).hex(), messages=(build_user_message(text),)
        )
        return self._begin_turns(checkpoint) if self.has_steps else self._run_turns(checkpoint)

    def _begin_turns(self, checkpoint: Checkpoint) -> effects.LoopSteps:
        if self.has_steps:
            yield effects.RunStep("before_agent", checkpoint.messages)
        return (yield from self._run_turns(checkpoint))

    def invoke(self, thread_id: str, text: str) -> effects.LoopSteps:
        """Take a message; ends with the result, or with the calls that wait for a reviewer."""
        saved: SavedCheckpoint | None = yield effects.LoadCheckpoint(thread_id)
        checkpoint = self._check_owner(saved) if saved else Checkpoint(thread_id=thread_id, agent=self.name)
        if checkpoint.stage == "paused":
            taken = yield from self._handle_message_while_paused(checkpoint, text)
            if isinstance(taken, InterruptionMetadata):
                return taken
            checkpoint = taken
        elif saved and checkpoint.stage == "running":
            recovered = yield from self._recover(saved)
            if isinstance(recovered, InterruptionMetadata):
                raise ThreadPaused
            checkpoint = recovered
        messages = (*checkpoint.messages, build_user_message(text))
        return (yield from self._begin_turns(replace(checkpoint, messages=messages)))

    def resume(
        self,
        thread_id: str,
        feedback: Feedback | None = None,
        *,
        passed: turn.PassedDecisions = turn.NO_DECISIONS,
        case: Mapping[str, Any] | None = None,
    ) -> effects.LoopSteps:
        """Take answers, or none: then expired calls are ended, and a thread whose process died is taken over.

        Decisions in `passed` were made, in time, through the outer agent, in its `case`.
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
                    going = yield from self._apply_answers(checkpoint, feedback, passed, case)
                except CheckpointConflict:
                    continue
                if not isinstance(going, InterruptionMetadata):
                    going = yield from self._run_calls(going)
            if isinstance(going, InterruptionMetadata):
                return going
            return (yield from self._run_turns(going))

    def run_inside(
        self,
        thread_id: str,
        text: str,
        decisions: turn.PassedDecisions,
        *,
        begins: bool,
        case: Mapping[str, Any] | None = None,
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
        return (yield from self.resume(thread_id, passed=decisions, case=case))

    def _run_turns(self, checkpoint: Checkpoint) -> effects.LoopSteps:
        for _ in range(self.max_turns):
            reply = yield from self._call_model(checkpoint.messages)
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
        yield turn.SaveCheckpoint(checkpoint.next(stage="ready"))
        raise ModelMisbehaved(f"The model was still calling tools after {self.max_turns} turns (max_turns).")

    def _call_model(self, messages: tuple[Message, ...]) -> Generator[effects.Effect, Any, Any]:
        if not self.has_steps:
            return (yield effects.CallModel(messages))
        reply = yield effects.CallModel((yield effects.RunStep("before_model", messages)))
        return (yield effects.RunStep("after_model", reply))

    def _handle_calls(
        self, checkpoint: Checkpoint, calls: list[ToolCall], unreadable: Mapping[str, str]
    ) -> effects.LoopPart:
        refused = refuse_unusable_calls(self.tools, calls, unreadable)
        usable = [call for call in calls if call.id not in refused]
        stopped = yield from turn.stop(
            usable,
            thread_id=checkpoint.thread_id,
            turn=count_replies(checkpoint),
            state={"messages": checkpoint.messages},
            schemas=self.schemas,
            uses_grants=self.uses_grants,
            are_checked=True,
        )
        if stopped is not None:
            return (
                yield from self._pause(
                    checkpoint, stopped.interruption, results=refused, granted=stopped.granted
                )
            )
        checkpoint = checkpoint.next(stage="running", interruption=None, started=(), results=refused, ends={})
        checkpoint = self._mark_first_started(checkpoint)
        yield turn.SaveCheckpoint(checkpoint, leased=True)
        return (yield from self._run_calls(checkpoint))

    def _run_calls(self, checkpoint: Checkpoint, *, begins: bool = True) -> effects.LoopPart:
        """Run the calls of the last message, and append their results to the thread in call order.

        The first calls are marked as started. The next ones start, and are marked, when those have ended.
        """
        calls = read_tool_calls(checkpoint.messages[-1])
        results, jobs = plan_jobs(checkpoint, calls, self.tools, begins=begins)
        if len(results) > len(checkpoint.results):
            before, checkpoint = checkpoint, turn.finish_calls(checkpoint, results)
            yield from turn.report_ends(before, checkpoint)
        for number, group in enumerate(group_jobs(jobs)):
            if number:
                checkpoint = mark_started(checkpoint.next(), group)
                yield turn.SaveCheckpoint(checkpoint, leased=True)
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
            before, checkpoint = checkpoint, turn.finish_calls(checkpoint, answers)
            yield from turn.report_ends(before, checkpoint)
            over = len(ran) == len(stopped) + len(broken)
            if broken and (over or not all(isinstance(error, Exception) for error in broken.values())):
                yield turn.SaveCheckpoint(checkpoint.next())
                raise next(iter(broken.values()))
            if len(ran) == len(stopped):
                return stopped, checkpoint
            checkpoint = checkpoint.next()
            yield turn.SaveCheckpoint(checkpoint, leased=True, unsynced=True)
            ended = yield effects.AwaitTools(checkpoint)

    def _append_results(
        self, checkpoint: Checkpoint, calls: Sequence[ToolCall], results: Mapping[str, str]
    ) -> effects.LoopPart:
        after = (*checkpoint.messages, *(build_result_message(call, results[call.id]) for call in calls))
        ran = apply_verdicts(checkpoint, calls) if self.agents else ()
        inside = [build_inner_thread_id(checkpoint, call) for call in ran if call.name in self.agents]
        checkpoint = record_answered(checkpoint, len(after)).next(
            stage="running", messages=after, interruption=None, verdicts={}, started=(), results={}, ends={},
            granted={}, changed={}, case=None,
        )  # fmt: skip
        yield turn.SaveCheckpoint(checkpoint, leased=True, unsynced=not inside)
        for thread_id in inside:
            yield effects.ReleaseThread(thread_id)
        if self.emits_events:
            yield effects.EmitEvents([ToolAnswered(call=call, content=results[call.id]) for call in calls])
        return checkpoint

    def _apply_answers(
        self,
        checkpoint: Checkpoint,
        feedback: Feedback | None,
        passed: turn.PassedDecisions,
        case: Mapping[str, Any] | None,
    ) -> effects.LoopPart:
        """Save the answers; claim the thread when they are complete, otherwise it stays paused."""
        answered = yield from turn.answer(
            checkpoint, feedback, schemas=self.schemas, opens_cases=self.opens_cases, passed=passed
        )
        if isinstance(answered, InterruptionMetadata):
            return answered
        decided = answered.thread if case is None else replace(answered.thread, case=case)
        checkpoint = self._mark_first_started(decided)
        yield effects.ClaimThread(checkpoint)
        if answered.outdated_case is not None:
            yield turn.WithdrawCase(answered.outdated_case)
        return checkpoint

    def _pause(
        self, checkpoint: Checkpoint, interruption: InterruptionMetadata, **changes: Any
    ) -> Generator[effects.Effect, Any, InterruptionMetadata]:
        changes = {"started": (), "case": None, "granted": {}, "ends": {}, **changes}
        checkpoint = checkpoint.next(stage="paused", interruption=interruption, verdicts={}, **changes)
        return (yield from turn.pause(checkpoint, opens_cases=self.opens_cases))

    def _pause_for_inner(
        self, checkpoint: Checkpoint, stopped: Mapping[str, InterruptionMetadata]
    ) -> Generator[effects.Effect, Any, InterruptionMetadata]:
        moment = yield turn.ReadMoment()
        interruption = merge_inner_interruptions(checkpoint, stopped, agents=self.agents, moment=moment)
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
        lost = find_lost_calls(checkpoint, calls, self.tools)
        checkpoint = self._mark_first_started(turn.claim_calls(checkpoint.next(), (), lost=lost))
        yield effects.ClaimThread(checkpoint)
        yield from turn.report_ends(saved.checkpoint, checkpoint)
        return (yield from self._run_calls(checkpoint, begins=False)) if calls else checkpoint

    def _handle_message_while_paused(self, checkpoint: Checkpoint, text: str) -> effects.LoopPart:
        policy, stopped = find_new_message_policy(self.hooks), turn.show_interruption(checkpoint)
        waiting = turn.find_calls_before_message(policy, stopped)
        if waiting is not None:
            yield turn.SaveCheckpoint(checkpoint.next(queued=(*checkpoint.queued, text)))
            return waiting
        calls = read_tool_calls(checkpoint.messages[-1])
        case, checkpoint = checkpoint.case, turn.supersede(checkpoint, CANCELLED_BY_MESSAGE)
        refused = {each: describe_refusal(verdict) for each, verdict in checkpoint.verdicts.items()}
        results = {
            call.id: checkpoint.results.get(call.id) or refused.get(call.id) or CANCELLED_BY_MESSAGE
            for call in calls
        }
        following = yield from self._append_results(checkpoint, calls, results)
        if case is not None:
            yield turn.WithdrawCase(case)
        return following

    def _finish(self, checkpoint: Checkpoint) -> effects.LoopSteps:
        checkpoint = checkpoint.next(stage="ready", interruption=None)
        yield turn.SaveCheckpoint(checkpoint)
        result = AgentResult(thread_id=checkpoint.thread_id, messages=checkpoint.messages)
        if self.has_steps:
            yield effects.RunStep("after_agent", result)
        return result

    def _take_queued(self, checkpoint: Checkpoint) -> Generator[effects.Effect, Any, Checkpoint]:
        checkpoint = take_queued_message(checkpoint)
        yield turn.SaveCheckpoint(checkpoint, leased=True)
        return checkpoint

    def _check_owner(self, saved: SavedCheckpoint) -> Checkpoint:
        if saved.checkpoint.agent != self.name:
            raise NothingToResume(f"This thread belongs to the agent {saved.checkpoint.agent}.")
        return saved.checkpoint
