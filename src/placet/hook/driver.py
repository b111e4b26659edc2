"""Drivers execute the effects that the agent loop yields. This one blocks; `async_driver` awaits."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context, copy_context
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from placet.effects import EffectRun
from placet.errors import ModelMisbehaved, PlacetError
from placet.hook import effects, turn
from placet.hook.agent_steps import AgentSteps, ToolInterceptor, run_step
from placet.hook.async_values import wait_for_value
from placet.hook.checkpoint import Checkpoint, Message
from placet.hook.events import AgentEvent, AgentOutcome, AgentResult, TextDelta, ToolJob
from placet.hook.heartbeat import Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.invocation import ModelCaller, ToolSchemas, call_tool, iterate_reply
from placet.hook.result_texts import describe_failure, describe_timeout, to_text
from placet.hook.savers.saver import Saver
from placet.hook.tools import copy_arguments
from placet.hook.turn_driver import TurnDriver
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from placet.hook.agent import ReactAgent

logger = logging.getLogger(__name__)
ToolOutcomes = Mapping[str, str | InterruptionMetadata | BaseException]
NO_LEASE = nullcontext()
BATCH_WINDOW_S = 0.05
"""Calls that end within this time of each other are saved in one write."""


class LoopDriver:
    """The parts that the sync and the async driver share."""

    def __init__(
        self,
        *,
        name: str,
        model: ModelCaller,
        tools: ToolSchemas,
        instructions: str,
        saver: Saver,
        lease_for: timedelta,
        workers: Workers,
        heartbeat: Heartbeat,
        turn_driver: TurnDriver,
        steps: Sequence[AgentSteps] = (),
        interceptors: Sequence[ToolInterceptor] = (),
    ) -> None:
        self._name = name
        self._model = model
        self._tools = tools
        self._system_messages: list[Message] = (
            [{"role": "system", "content": instructions}] if instructions else []
        )
        self._saver = saver
        self._workers = workers
        self._heartbeat = heartbeat
        self._turn_driver = turn_driver
        self._steps = steps
        self._interceptors = interceptors
        self._lease_for = lease_for
        self._held: Checkpoint | None = None

    def _reply(self, messages: Sequence[Message]) -> Any:
        return self._model.call(
            self._system_messages + [_copy_message(message) for message in messages], [*self._tools]
        )

    def _renewing_lease(self) -> AbstractContextManager[None]:
        """Return a context manager that renews the thread's lease while the model is called."""
        return NO_LEASE if self._held is None else self._heartbeat.renewing(self._saver, self._held)

    def _execute_saver_effect(self, effect: effects.Effect) -> Any:
        if type(effect) not in SAVER_EFFECTS:
            raise TypeError(f"The driver cannot execute {effect!r}.")
        return SAVER_EFFECTS[type(effect)](self, effect)

    def _put(self, effect: turn.SaveCheckpoint) -> None:
        saver = self._saver.unsynced if effect.unsynced else self._saver
        saver.put(effect.checkpoint, lease_for=self._lease_for if effect.leased else None)
        self._held = effect.checkpoint if effect.leased else None

    def _load(self, effect: effects.LoadCheckpoint) -> Any:
        return self._saver.get(effect.thread_id)

    def _claim(self, effect: effects.ClaimThread) -> None:
        self._saver.claim(effect.checkpoint, lease_for=self._lease_for)
        self._held = effect.checkpoint

    def _release(self, effect: effects.ReleaseThread) -> None:
        self._saver.release(effect.thread_id)

    def _release_lease(self) -> None:
        """Release the lease however the run ends, so that the next resume need not wait for it to expire."""
        if self._held is not None:
            with suppress(Exception):
                self._saver.put(self._held.next())

    def _child_steps(self, agent: "ReactAgent", job: ToolJob) -> effects.LoopSteps:
        loop = agent.inner_loop(self._name)
        text = str(job.call.arguments.get("task", ""))
        return loop.run_inside(job.thread_id, text, job.decisions, begins=job.begins, case=job.case)


def _copy_message(message: Message) -> Message:
    """Return a copy of a message for the model, which may modify it."""
    calls = message.get("tool_calls")
    if calls is None:
        return dict(message)
    return {
        **message,
        "tool_calls": [{**call, "arguments": copy_arguments(call["arguments"])} for call in calls],
    }


SAVER_EFFECTS: Mapping[type, Callable[[LoopDriver, Any], Any]] = {
    turn.SaveCheckpoint: LoopDriver._put,
    effects.LoadCheckpoint: LoopDriver._load,
    effects.ClaimThread: LoopDriver._claim,
    effects.ReleaseThread: LoopDriver._release,
}
"""Effects that are executed by the saver."""


class SyncDriver(LoopDriver):
    """Runs the loop in this thread; tools run in worker threads."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._running: dict[str, tuple[ToolJob, float | None]] = {}
        self._ended_jobs: SimpleQueue[tuple[ToolJob, Any, BaseException | None]] = SimpleQueue()

    def events(self, steps: effects.LoopSteps) -> Iterator[AgentEvent]:
        """Yield every event; the last one is the outcome."""
        run = EffectRun(steps)
        try:
            for step in iterate_run(run):
                try:
                    if isinstance(step, effects.CallModel):
                        run.set_result((yield from self._call_model_streaming(step.messages)))
                    elif isinstance(step, AgentEvent):
                        yield step
                    else:
                        run.set_result(self._execute(step))
                except GeneratorExit:
                    raise
                except BaseException as raised:
                    run.set_exception(raised)
        finally:
            self._release_lease()

    def outcome(self, steps: effects.LoopSteps) -> AgentOutcome:
        """Return the outcome; the same as the last of `events`, without the cost of yielding."""
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    effect = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as stop:
                    return check_outcome(stop.value)
                answer, error = None, None
                kind = type(effect)
                try:
                    if kind in SAVER_EFFECTS:
                        answer = SAVER_EFFECTS[kind](self, effect)
                    elif isinstance(effect, effects.CallModel):
                        answer = self._call_model(effect.messages)
                    elif kind is not effects.EmitEvents:
                        answer = self._execute(effect)
                except BaseException as raised:
                    error = raised
        finally:
            self._release_lease()

    def _call_model(self, messages: Sequence[Message]) -> Any:
        with self._renewing_lease():
            reply = self._reply(messages)
            if isinstance(reply, dict):
                return reply
            texts: list[str] = []
            for piece in iterate_reply(reply):
                if not isinstance(piece, str):
                    return piece
                texts.append(piece)
            return join_texts(texts)

    def _call_model_streaming(self, messages: Sequence[Message]) -> Generator[AgentEvent, None, Any]:
        texts: list[str] = []
        with self._renewing_lease():
            reply = iterate_reply(self._reply(messages))
        while True:
            with self._renewing_lease():  # not while the consumer handles an event
                piece = next(reply, None)
            if piece is None:
                return join_texts(texts)
            if not isinstance(piece, str):
                return piece
            texts.append(piece)
            yield TextDelta(text=piece)

    def _execute(self, effect: effects.Effect) -> Any:
        if type(effect) in SAVER_EFFECTS:
            return self._execute_saver_effect(effect)
        if isinstance(effect, effects.RunTools | effects.AwaitTools):
            with self._heartbeat.renewing(self._saver, effect.checkpoint):
                if isinstance(effect, effects.RunTools):
                    self._start_jobs(effect.jobs)
                return self._await_jobs()
        if isinstance(effect, effects.RunStep):
            return run_step(self._steps, effect.name, effect.value, wait_for_value)
        return self._turn_driver.perform(effect)

    def _start_jobs(self, jobs: Sequence[ToolJob]) -> None:
        """Start the jobs in parallel. This thread runs some itself, but none with a timeout."""
        shared: list[Callable[[], object]] = []
        for job in jobs:
            if job.tool.timeout is None:
                self._running[job.call.id] = (job, None)
                shared.append(partial(self._run_and_record, job, copy_context()))
            else:
                self._running[job.call.id] = (job, monotonic() + job.tool.timeout.total_seconds())
                self._workers.begin(partial(self._run_job, job), partial(self._record_end, job))
        self._workers.share(shared)

    def _run_and_record(self, job: ToolJob, context: Context) -> None:
        try:
            self._record_end(job, context.run(self._run_job, job), None)
        except BaseException as error:
            self._record_end(job, None, error)

    def _record_end(self, job: ToolJob, result: Any, error: BaseException | None) -> None:
        self._ended_jobs.put((job, result, error))

    def _run_job(self, job: ToolJob) -> str | InterruptionMetadata:
        if job.tool.agent is not None:
            driver = job.tool.agent.inner_driver(self._name, self._saver, self._turn_driver.outbox)
            return answer_from_outcome(driver.outcome(self._child_steps(job.tool.agent, job)))
        return to_text(call_tool(job, self._interceptors))

    def _await_jobs(self) -> ToolOutcomes:
        """Return the jobs that have ended, at least one; jobs that end together are returned together."""
        ended: dict[str, str | InterruptionMetadata | BaseException] = {}
        timeout = self._compute_seconds_to_timeout()
        while self._running and not (ended and timeout == 0.0):
            try:
                job, result, error = self._ended_jobs.get(timeout=timeout)
            except Empty:
                ended |= self._take_timed_out()
                timeout = 0.0 if ended else self._compute_seconds_to_timeout()
                continue
            if self._running.pop(job.call.id, None) is not None:
                ended[job.call.id] = result_from_error(job, error) if error is not None else result
                timeout = BATCH_WINDOW_S
        return ended

    def _compute_seconds_to_timeout(self) -> float | None:
        """Return the seconds until the first job times out; None if no job has a timeout."""
        limits = [limit - monotonic() for _, limit in self._running.values() if limit is not None]
        return max(0.0, min(limits)) if limits else None

    def _take_timed_out(self) -> dict[str, str | InterruptionMetadata]:
        overdue = [
            job
            for job, limit in self._running.values()
            if limit is not None and limit <= monotonic() and job.tool.timeout is not None
        ]
        for job in overdue:
            del self._running[job.call.id]
        return {
            job.call.id: describe_timeout(job.tool.timeout) for job in overdue if job.tool.timeout is not None
        }


def iterate_run(run: EffectRun[effects.Effect, AgentOutcome]) -> Iterator[AgentEvent | effects.Effect]:
    """Yield the events of a run, the outcome last, and between them the effects that a driver executes."""
    last: AgentEvent | None = None
    for effect in run:
        if isinstance(effect, effects.EmitEvents):
            for last in effect.events:
                yield last
        else:
            yield effect
    if last is not run.outcome:
        yield run.outcome


def result_from_error(job: ToolJob, error: BaseException) -> str | BaseException:
    """Return what the model reads about a tool that raised, or the error if the tool is not to blame.

    An inner agent whose storage is unavailable, or whose thread is busy, continues when the thread is
    resumed.
    """
    unheard_of = isinstance(error, PlacetError) and not isinstance(error, ModelMisbehaved)
    if not isinstance(error, Exception) or (job.tool.agent is not None and unheard_of):
        return error
    logger.warning("tool_failed tool=%s error=%s", job.call.name, type(error).__name__, exc_info=error)
    return describe_failure(error)


def answer_from_outcome(outcome: AgentOutcome) -> str | InterruptionMetadata:
    """Return what an inner agent answers to the agent that called it."""
    return outcome.text if isinstance(outcome, AgentResult) else outcome


def check_outcome(last: AgentEvent | None) -> AgentOutcome:
    """Return the last event, which must be an outcome."""
    if isinstance(last, AgentResult | InterruptionMetadata):
        return last
    raise ModelMisbehaved("The agent ended without an outcome.")


def join_texts(texts: Sequence[str]) -> str:
    """Return the reply of a model that sent only pieces of text."""
    if not texts:
        raise ModelMisbehaved("The model returned an empty reply.")
    return "".join(texts)
