"""The agent's loop without its world: it yields what is to be done and is sent what came of it.

model → hooks → tools → model. The sync and the async driver in `drive` are the only ones who act.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from placet.errors import CheckpointConflict, ModelMisbehaved, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook.answers import Feedback, accept, answers_in, by_default
from placet.hook.calls import ToolCall
from placet.hook.checkpoint import Checkpoint, Granted
from placet.hook.effects import (
    Ask,
    AskModel,
    Claim,
    Effect,
    Emit,
    Join,
    Load,
    Look,
    LookAtGrants,
    Part,
    Put,
    Release,
    Run,
    Steps,
    UseGrants,
    Withdraw,
)
from placet.hook.events import AgentResult, Job, ModelReplied, ToolAnswered
from placet.hook.feedback import Verdict
from placet.hook.grants import candidates
from placet.hook.interruption import InterruptionMetadata
from placet.hook.messages import assistant, calls_of, tool_result, user
from placet.hook.outcomes import CANCELLED, told
from placet.hook.policy import Hook, NewMessage
from placet.hook.ruling import Ruling, is_over, unopposed
from placet.hook.savers.saver import Kept
from placet.hook.standing import (
    Passed,
    answered,
    answered_before,
    as_decided_in,
    changed_into,
    from_inside,
    lost,
    still_waiting,
    stored_outcome,
    taken_inside,
    thread_inside,
    to_run,
    turn_of,
    unqueued,
)
from placet.hook.tools import Tool, unusable
from placet.hook.turn import ask_of_lapsed, freeze, freeze_grants, gate_edits, gates_of
from placet.hook.values import replace

NONE: Passed = MappingProxyType({})


class Flow:
    """One agent's way through its turns."""

    def __init__(
        self,
        name: str,
        tools: Mapping[str, Tool],
        hooks: Sequence[Hook],
        *,
        asks: bool = False,
        spends: bool = False,
        tells: bool = False,
        max_turns: int = 50,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self.tools = tools
        self.hooks = hooks
        self.asks = asks
        self.spends = spends
        self.tells = tells
        self.max_turns = max_turns
        self.clock = clock
        self.schemas = {tool.name: tool.schema for tool in tools.values()}
        self._empty = Checkpoint(thread_id="", agent=name)
        self.agents = {tool.name: tool.agent.name for tool in tools.values() if tool.agent is not None}

    def begin(self, text: str) -> Steps:
        """Take a message in a thread of its own, under a name that nobody has."""
        thread_id = os.urandom(16).hex()
        return self._turns(replace(self._empty, thread_id=thread_id, messages=(user(text),)))

    def invoke(self, thread_id: str, text: str) -> Steps:
        """Take a message; ends with the result, or with the calls that wait for a person."""
        kept: Kept | None = yield Load(thread_id)
        checkpoint = self._own(kept) if kept else Checkpoint(thread_id=thread_id, agent=self.name)
        if checkpoint.stage == "paused":
            taken = yield from self._message_while_paused(checkpoint, text)
            if isinstance(taken, InterruptionMetadata):
                return taken
            checkpoint = taken
        elif kept and checkpoint.stage == "running":
            recovered = yield from self._recovered(kept)
            if isinstance(recovered, InterruptionMetadata):
                raise ThreadPaused
            checkpoint = recovered
        messages = (*checkpoint.messages, user(text))
        return (yield from self._turns(replace(checkpoint, messages=messages)))

    def resume(self, thread_id: str, feedback: Feedback | None = None, *, passed: Passed = NONE) -> Steps:
        """Take answers, or none: then what is over is ended, and what a dead process left is taken up.

        Decisions that are `passed` on were taken, in time, by the agent around this one.
        """
        feedback = answers_in(feedback)
        while True:
            kept: Kept | None = yield Load(thread_id)
            if kept is None:
                raise NothingToResume
            checkpoint = self._own(kept)
            if answered_before(checkpoint, feedback):
                return stored_outcome(checkpoint, feedback)
            if checkpoint.stage == "running":
                going = yield from self._recovered(kept)
            else:
                try:
                    going = yield from self._answered(checkpoint, feedback, passed)
                except CheckpointConflict:
                    continue
                if not isinstance(going, InterruptionMetadata):
                    going = yield from self._run(going)
            if isinstance(going, InterruptionMetadata):
                return going
            return (yield from self._turns(going))

    def inside(self, thread_id: str, text: str, decisions: Passed, *, begins: bool) -> Steps:
        """As an agent inside another: begun, taken up or answered, as its thread stands.

        When it `begins`, such a thread was left by one around it that was forgotten, and bore the same name.
        """
        kept: Kept | None = yield Load(thread_id)
        if begins and kept is not None:
            yield Release(thread_id)
        if kept is None or begins:
            return (yield from self.invoke(thread_id, text))
        if kept.checkpoint.stage == "ready":
            return stored_outcome(kept.checkpoint)
        return (yield from self.resume(thread_id, passed=decisions))

    def _turns(self, checkpoint: Checkpoint) -> Steps:
        for _ in range(self.max_turns):
            reply = yield AskModel(checkpoint.messages)
            message, calls, unreadable = assistant(reply, checkpoint.messages)
            if self.tells:
                yield Emit((ModelReplied(message=message),))
            checkpoint = replace(checkpoint, messages=(*checkpoint.messages, message))
            if not calls:
                if not checkpoint.queued:
                    return (yield from self._finished(checkpoint))
                checkpoint = yield from self._unqueued(checkpoint)
                continue
            going = yield from self._called(checkpoint, calls, unreadable)
            if isinstance(going, InterruptionMetadata):
                return going
            checkpoint = going
        yield Put(checkpoint.next(stage="ready"))
        raise ModelMisbehaved(f"The model went on calling tools for {self.max_turns} turns.")

    def _called(self, checkpoint: Checkpoint, calls: list[ToolCall], unreadable: Mapping[str, str]) -> Part:
        refused = unusable(self.tools, calls, unreadable)
        usable = [call for call in calls if call.id not in refused]
        state, turn = {"messages": checkpoint.messages}, turn_of(checkpoint)
        gates = gates_of(self.hooks, usable, state)
        covered: Mapping[str, str] = {}
        if self.spends and (asked := candidates(usable, gates)):
            covered = yield UseGrants(asked, checkpoint.thread_id, turn)
        interruption = freeze(
            gates,
            usable,
            thread_id=checkpoint.thread_id,
            turn=turn,
            state=state,
            schemas=self.schemas,
            now=self.clock(),
            covered=covered,
        )
        if interruption is not None:
            granted = freeze_grants(gates, usable, covered, self.schemas) if covered else {}
            return (yield from self._paused(checkpoint, interruption, results=refused, granted=granted))
        checkpoint = checkpoint.next(
            stage="running", interruption=None, started=[call.id for call in calls], results=refused
        )
        yield Put(checkpoint, leased=True)
        return (yield from self._run(checkpoint))

    def _run(self, checkpoint: Checkpoint, *, begins: bool = True) -> Part:
        """Run what is to run in the last message, and put all results, in call order, into the thread."""
        calls = calls_of(checkpoint.messages[-1])
        results, jobs = to_run(checkpoint, calls, self.tools, begins=begins)
        checkpoint = replace(checkpoint, results=results)
        stopped, checkpoint = yield from self._worked_off(checkpoint, jobs, calls)
        if stopped:
            return (yield from self._paused_inside(checkpoint, stopped))
        return (yield from self._told(checkpoint, calls, checkpoint.results))

    def _worked_off(
        self, checkpoint: Checkpoint, jobs: Sequence[Job], calls: Sequence[ToolCall]
    ) -> Generator[Effect, Any, tuple[dict[str, InterruptionMetadata], Checkpoint]]:
        """Wait for all jobs; what could not even be tried is raised when the results of the rest are kept."""
        asked, ran = {call.id: call for call in calls}, {job.call.id: job.call for job in jobs}
        stopped: dict[str, InterruptionMetadata] = {}
        broken: dict[str, BaseException] = {}
        ended: Mapping[str, Any] = (yield Run(jobs, checkpoint)) if jobs else {}
        while True:
            answers: dict[str, str] = {}
            for call_id, result in ended.items():
                if isinstance(result, str):
                    answers[call_id] = told(asked[call_id], ran.pop(call_id), result)
                elif isinstance(result, InterruptionMetadata):
                    stopped[call_id] = result
                else:
                    broken[call_id] = result
            checkpoint = replace(checkpoint, results={**checkpoint.results, **answers})
            over = len(ran) == len(stopped) + len(broken)
            if broken and (over or not all(isinstance(error, Exception) for error in broken.values())):
                yield Put(checkpoint.next())
                raise next(iter(broken.values()))
            if len(ran) == len(stopped):
                return stopped, checkpoint
            checkpoint = checkpoint.next()
            yield Put(checkpoint, leased=True, soon=True)
            ended = yield Join(checkpoint)

    def _told(self, checkpoint: Checkpoint, calls: Sequence[ToolCall], results: Mapping[str, str]) -> Part:
        after = (*checkpoint.messages, *(tool_result(call, results[call.id]) for call in calls))
        ran = as_decided_in(checkpoint, calls) if self.agents else ()
        inside = [thread_inside(checkpoint, call) for call in ran if call.name in self.agents]
        checkpoint = answered(checkpoint, len(after)).next(
            stage="running", messages=after, interruption=None, verdicts={}, started=(), results={},
            granted={}, changed={}, case=None,
        )  # fmt: skip
        yield Put(checkpoint, leased=True, soon=not inside)
        for thread_id in inside:
            yield Release(thread_id)
        if self.tells:
            yield Emit([ToolAnswered(call=call, content=results[call.id]) for call in calls])
        return checkpoint

    def _answered(self, checkpoint: Checkpoint, feedback: Feedback | None, passed: Passed) -> Part:
        """Keep the answers; the thread is claimed when they are complete, otherwise it goes on waiting."""
        interruption = checkpoint.interruption
        if checkpoint.stage != "paused" or interruption is None:
            raise NothingToResume
        ruling: Ruling | None = None
        if checkpoint.case is not None:
            ruling = yield Look(checkpoint.case)
            if feedback is None and is_over(ruling) and interruption.default == "hold":
                again_from = checkpoint.case["attempt"] + 1
                return (yield from self._asked(replace(checkpoint, case=None), attempt=again_from))
        verdicts = taken_inside(checkpoint, passed)
        verdicts = verdicts or self._decided(checkpoint, interruption, feedback, ruling)
        if verdicts is None:
            return (yield from self._asked_now(checkpoint, passed))
        now = self.clock()
        again, verdicts = gate_edits(self.hooks, interruption, verdicts, schemas=self.schemas, now=now)
        granted: Granted = checkpoint.granted
        if granted and len(verdicts) == len(again.tool_feedbacks):
            again, granted = ask_of_lapsed(again, granted, (yield LookAtGrants(granted)), now=now)
        if len(verdicts) < len(again.tool_feedbacks):
            outdated = checkpoint.case if again is not interruption else None
            checkpoint = checkpoint.next(
                interruption=again,
                verdicts=verdicts,
                granted=granted,
                case=None if outdated else checkpoint.case,
            )
            yield Put(checkpoint)
            if outdated is not None and feedback is not None:
                yield Withdraw(outdated)
            return (yield from self._asked(checkpoint))
        started = [call["id"] for call in checkpoint.messages[-1].get("tool_calls", ())]
        checkpoint = checkpoint.next(stage="running", interruption=again, verdicts=verdicts, started=started)
        yield Claim(checkpoint)
        if checkpoint.case is not None and feedback is not None:
            yield Withdraw(checkpoint.case)
        return checkpoint

    def _decided(
        self,
        checkpoint: Checkpoint,
        interruption: InterruptionMetadata,
        feedback: Feedback | None,
        ruling: Ruling | None,
    ) -> Mapping[str, Verdict] | None:
        """All decisions so far, or None if there is nothing new. Where a case was opened, its clock rules."""
        kept, now = checkpoint.verdicts, self.clock()
        if feedback is not None:
            given = accept(interruption, feedback, decided=kept, schemas=self.schemas, now=now)
            return unopposed(given, ruling, interruption, kept, self.schemas)
        if checkpoint.case is not None:
            return None if ruling is None else ruling.verdicts(interruption, kept, self.schemas)
        late = interruption.expires_at is not None and now >= interruption.expires_at
        return by_default(interruption, kept) if late and interruption.default == "reject" else None

    def _asked(
        self, checkpoint: Checkpoint, *, attempt: int = 0
    ) -> Generator[Effect, Any, InterruptionMetadata]:
        """The calls that wait, with the case where a person finds them; it is opened if it is not yet."""
        interruption, case = checkpoint.interruption, checkpoint.case
        if interruption is None:
            raise NothingToResume
        interruption = interruption.with_verdicts(checkpoint.verdicts)
        if self.asks and case is None and (opened := (yield Ask(interruption, attempt))) is not None:
            case = {**opened, "attempt": attempt}
            with suppress(CheckpointConflict):  # who was faster has the same case, or an answer
                yield Put(checkpoint.next(case=case))
        return interruption if case is interruption.case else replace(interruption, case=case)

    def _asked_now(self, checkpoint: Checkpoint, passed: Passed) -> Part:
        """As `_asked`. A case that is new here may be an old one, of one who died when it had asked."""
        waiting = yield from self._asked(checkpoint)
        if checkpoint.case is not None or waiting.case is None or (yield Look(waiting.case)) is None:
            return waiting
        return (yield from self._answered(checkpoint.next(case=waiting.case), None, passed))

    def _paused(
        self, checkpoint: Checkpoint, interruption: InterruptionMetadata, **changes: Any
    ) -> Generator[Effect, Any, InterruptionMetadata]:
        changes = {"started": (), "case": None, "granted": {}, **changes}
        checkpoint = checkpoint.next(stage="paused", interruption=interruption, verdicts={}, **changes)
        yield Put(checkpoint)
        return (yield from self._asked(checkpoint)) if self.asks else interruption

    def _paused_inside(
        self, checkpoint: Checkpoint, stopped: Mapping[str, InterruptionMetadata]
    ) -> Generator[Effect, Any, InterruptionMetadata]:
        interruption = from_inside(checkpoint, stopped, agents=self.agents, now=self.clock())
        changed = changed_into(checkpoint, stopped)
        checkpoint = answered(checkpoint, len(checkpoint.messages))
        return (
            yield from self._paused(checkpoint, interruption, results=checkpoint.results, changed=changed)
        )

    def _recovered(self, kept: Kept) -> Part:
        """Take up what a dead process left: a call that may have run is not run again, unless it may be."""
        if kept.leased_until is not None and kept.leased_until > self.clock():
            raise ThreadBusy
        checkpoint = kept.checkpoint
        calls = calls_of(checkpoint.messages[-1])
        results = {**checkpoint.results, **lost(checkpoint, calls, self.tools)}
        checkpoint = checkpoint.next(results=results)
        yield Claim(checkpoint)
        return (yield from self._run(checkpoint, begins=False)) if calls else checkpoint

    def _message_while_paused(self, checkpoint: Checkpoint, text: str) -> Part:
        choice = self._on_new_message()
        if checkpoint.interruption is None or choice == "refuse":
            raise ThreadPaused
        if choice == "queue":
            yield Put(checkpoint.next(queued=(*checkpoint.queued, text)))
            return still_waiting(checkpoint, checkpoint.interruption)
        calls = calls_of(checkpoint.messages[-1])
        results = {call.id: checkpoint.results.get(call.id, CANCELLED) for call in calls}
        told = yield from self._told(checkpoint, calls, results)
        if checkpoint.case is not None:
            yield Withdraw(checkpoint.case)
        return told

    def _on_new_message(self) -> NewMessage:
        choices: set[NewMessage] = {getattr(hook, "on_new_message", "refuse") for hook in self.hooks}
        return choices.pop() if len(choices) == 1 else "refuse"

    def _finished(self, checkpoint: Checkpoint) -> Steps:
        checkpoint = checkpoint.next(stage="ready", interruption=None)
        yield Put(checkpoint)
        return AgentResult(thread_id=checkpoint.thread_id, messages=checkpoint.messages)

    def _unqueued(self, checkpoint: Checkpoint) -> Generator[Effect, Any, Checkpoint]:
        checkpoint = unqueued(checkpoint)
        yield Put(checkpoint, leased=True)
        return checkpoint

    def _own(self, kept: Kept) -> Checkpoint:
        if kept.checkpoint.agent != self.name:
            raise NothingToResume(f"This thread belongs to the agent {kept.checkpoint.agent}.")
        return kept.checkpoint
