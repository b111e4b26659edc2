"""What drives the loop: does what it asks, and nothing else. This one waits; another, beside it, awaits."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import Context, copy_context
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from placet.errors import HookError, ModelMisbehaved, NobodyAsked, PlacetError
from placet.hook.case_outcome import require_sync
from placet.hook.checkpoint import Checkpoint, Message
from placet.hook.effects import (
    AwaitTools,
    CallModel,
    ClaimThread,
    Effect,
    EmitEvents,
    LoadCheckpoint,
    LoopSteps,
    OpenCase,
    PollCase,
    RecheckGrants,
    ReleaseThread,
    RunTools,
    SaveCheckpoint,
    UseGrants,
    WithdrawCase,
)
from placet.hook.events import AgentResult, Event, Outcome, TextDelta, ToolJob
from placet.hook.grants import GrantSource, new_nonce, recheck_grants, use_grants
from placet.hook.heartbeat import Heartbeat
from placet.hook.interruption import InterruptionMetadata
from placet.hook.invocation import ModelCaller, ToolSchemas, call_tool, iterate_reply
from placet.hook.result_texts import describe_failure, describe_timeout, to_text
from placet.hook.savers.saver import Saver
from placet.hook.tools import copy_arguments
from placet.hook.workers import Workers

if TYPE_CHECKING:
    from placet.hook.agent import ReactAgent
    from placet.hook.reviews import Reviews

logger = logging.getLogger(__name__)
ToolOutcomes = Mapping[str, str | InterruptionMetadata | BaseException]
NO_LEASE = nullcontext()
BATCH_WINDOW_S = 0.05
"""Calls that end this close to each other are kept in one write."""


class LoopDriver:
    """What both drivers share."""

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
        reviews: "Reviews | None",
        grants: GrantSource | None,
    ) -> None:
        self._name = name
        self._model = model
        self._tools = tools
        self._before: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
        self._saver = saver
        self._workers = workers
        self._heartbeat = heartbeat
        self._reviews = reviews
        self._grants = grants
        self._lease_for = lease_for
        self._held: Checkpoint | None = None

    def _reply(self, messages: Sequence[Message]) -> Any:
        return self._model.ask(
            self._before + [_copy_message(message) for message in messages], [*self._tools]
        )

    def _holding(self) -> AbstractContextManager[None]:
        """Whoever waits for the model goes on recheck_grants the thread, if it does."""
        return NO_LEASE if self._held is None else self._heartbeat.holding(self._saver, self._held)

    def _keep(self, effect: Effect) -> Any:
        if type(effect) not in SAVER_EFFECTS:
            raise TypeError(f"The loop asked for {effect!r}.")
        return SAVER_EFFECTS[type(effect)](self, effect)

    def _put(self, effect: SaveCheckpoint) -> None:
        saver = self._saver.soon if effect.soon else self._saver
        saver.put(effect.checkpoint, lease_for=self._lease_for if effect.leased else None)
        self._held = effect.checkpoint if effect.leased else None

    def _load(self, effect: LoadCheckpoint) -> Any:
        return self._saver.get(effect.thread_id)

    def _claim(self, effect: ClaimThread) -> None:
        self._saver.claim(effect.checkpoint, lease_for=self._lease_for)
        self._held = effect.checkpoint

    def _release(self, effect: ReleaseThread) -> None:
        self._saver.release(effect.thread_id)

    def _let_go(self) -> None:
        """However this ends, the next resume need not wait until the lease is over."""
        if self._held is not None:
            with suppress(Exception):
                self._saver.put(self._held.next())

    def _with_people(self, effect: Effect) -> Any:
        """What the reviews answer; it may have to be awaited."""
        if self._reviews is None:
            return None
        match effect:
            case OpenCase(interruption, attempt):
                return self._reviews.ask(interruption, agent=self._name, attempt=attempt)
            case PollCase(case):
                return self._reviews.look(case)
            case WithdrawCase(case):
                return self._reviews.withdraw(case, "The calls were decided elsewhere.")
            case _:
                raise TypeError(f"The loop asked for {effect!r}.")

    def _named(self, effect: UseGrants) -> dict[str, Any]:
        """Asked once: what a thread of the same name asked for before is another call."""
        return {"agent": self._name, "thread_id": effect.thread_id, "turn": effect.turn, "when": new_nonce()}

    def _child_steps(self, agent: "ReactAgent", job: ToolJob) -> LoopSteps:
        flow = agent.flow_inside(self._name)
        text = str(job.call.arguments.get("task", ""))
        return flow.inside(job.thread_id, text, job.decisions, begins=job.begins)


def _copy_message(message: Message) -> Message:
    """A message for the model, which may change what it is given; what is kept stays as it was."""
    calls = message.get("tool_calls")
    if calls is None:
        return dict(message)
    return {
        **message,
        "tool_calls": [{**call, "arguments": copy_arguments(call["arguments"])} for call in calls],
    }


SAVER_EFFECTS: Mapping[type, Callable[[LoopDriver, Any], Any]] = {
    SaveCheckpoint: LoopDriver._put,
    LoadCheckpoint: LoopDriver._load,
    ClaimThread: LoopDriver._claim,
    ReleaseThread: LoopDriver._release,
}
"""What is asked of the saver."""


class SyncDriver(LoopDriver):
    """Drives the loop in this thread; tools run in threads beside it."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._running: dict[str, tuple[ToolJob, float | None]] = {}
        self._ended_jobs: SimpleQueue[tuple[ToolJob, Any, BaseException | None]] = SimpleQueue()

    def events(self, steps: LoopSteps) -> Iterator[Event]:
        """Everything that is reported; the last event is the outcome."""
        answer: Any = None
        error: BaseException | None = None
        last: Event | None = None
        try:
            while True:
                try:
                    effect = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as stop:
                    if last is not stop.value:
                        yield stop.value
                    return
                answer, error = None, None
                try:
                    if isinstance(effect, EmitEvents):
                        for last in effect.events:
                            yield last
                    elif isinstance(effect, CallModel):
                        answer = yield from self._asked(effect.messages)
                    else:
                        answer = self._work(effect)
                except GeneratorExit:
                    raise
                except BaseException as raised:
                    error = raised
        finally:
            self._let_go()

    def outcome(self, steps: LoopSteps) -> Outcome:
        """What it all ends with: as `events`, but nobody listens on the way."""
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
                    elif isinstance(effect, CallModel):
                        answer = self._answer(effect.messages)
                    elif kind is not EmitEvents:
                        answer = self._work(effect)
                except BaseException as raised:
                    error = raised
        finally:
            self._let_go()

    def _answer(self, messages: Sequence[Message]) -> Any:
        with self._holding():
            reply = self._reply(messages)
            if isinstance(reply, dict):
                return reply
            texts: list[str] = []
            for piece in iterate_reply(reply):
                if not isinstance(piece, str):
                    return piece
                texts.append(piece)
            return join_texts(texts)

    def _asked(self, messages: Sequence[Message]) -> Generator[Event, None, Any]:
        texts: list[str] = []
        with self._holding():
            reply = iterate_reply(self._reply(messages))
        while True:
            with self._holding():  # not while the one who listens takes its time
                piece = next(reply, None)
            if piece is None:
                return join_texts(texts)
            if not isinstance(piece, str):
                return piece
            texts.append(piece)
            yield TextDelta(text=piece)

    def _work(self, effect: Effect) -> Any:
        if type(effect) in SAVER_EFFECTS:
            return self._keep(effect)
        if isinstance(effect, RunTools | AwaitTools):
            with self._heartbeat.holding(self._saver, effect.checkpoint):
                if isinstance(effect, RunTools):
                    self._begin(effect.jobs)
                return self._ended()
        if isinstance(effect, OpenCase | PollCase | WithdrawCase):
            with tolerate_review_failure(effect):
                return require_sync(self._with_people(effect))
            return None
        if isinstance(effect, UseGrants):
            return use_grants(self._grants, effect.calls, **self._named(effect)) if self._grants else {}
        if isinstance(effect, RecheckGrants):
            return recheck_grants(self._grants, effect.granted)
        raise TypeError(f"The loop asked for {effect!r}.")

    def _begin(self, jobs: Sequence[ToolJob]) -> None:
        """RunTools them side by side. This thread does its share, but of none that it may have to leave."""
        shared: list[Callable[[], object]] = []
        for job in jobs:
            if job.tool.timeout is None:
                self._running[job.call.id] = (job, None)
                shared.append(partial(self._finish, job, copy_context()))
            else:
                self._running[job.call.id] = (job, monotonic() + job.tool.timeout.total_seconds())
                self._workers.begin(partial(self._do, job), partial(self._told, job))
        self._workers.share(shared)

    def _finish(self, job: ToolJob, context: Context) -> None:
        try:
            self._told(job, context.run(self._do, job), None)
        except BaseException as error:
            self._told(job, None, error)

    def _told(self, job: ToolJob, result: Any, error: BaseException | None) -> None:
        self._ended_jobs.put((job, result, error))

    def _do(self, job: ToolJob) -> str | InterruptionMetadata:
        if job.tool.agent is not None:
            driver = job.tool.agent.driver_inside(self._name, self._saver)
            return answer_from_outcome(driver.outcome(self._child_steps(job.tool.agent, job)))
        return to_text(call_tool(job))

    def _ended(self) -> ToolOutcomes:
        """What has ended by now, at least one; calls that end together are told together."""
        ended: dict[str, str | InterruptionMetadata | BaseException] = {}
        patience = self._patience()
        while self._running and not (ended and patience == 0.0):
            try:
                job, result, error = self._ended_jobs.get(timeout=patience)
            except Empty:
                ended |= self._overdue()
                patience = 0.0 if ended else self._patience()
                continue
            if self._running.pop(job.call.id, None) is not None:
                ended[job.call.id] = result_from_error(job, error) if error is not None else result
                patience = BATCH_WINDOW_S
        return ended

    def _patience(self) -> float | None:
        """How long until the first job is overdue; None if none ever is."""
        limits = [limit - monotonic() for _, limit in self._running.values() if limit is not None]
        return max(0.0, min(limits)) if limits else None

    def _overdue(self) -> dict[str, str | InterruptionMetadata]:
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


@contextmanager
def tolerate_review_failure(effect: OpenCase | PollCase | WithdrawCase) -> Iterator[None]:
    """Nobody could be asked, or told: the thread waits all the same, and the next resume tries again.

    That nobody ever can be is for the caller to hear.
    """
    try:
        yield
    except Exception as error:
        expected = isinstance(error, PlacetError | OSError) and type(error) not in (HookError, NobodyAsked)
        if not (isinstance(effect, WithdrawCase) or (isinstance(effect, OpenCase) and expected)):
            raise
        logger.warning("%s failed; the calls go on waiting.", type(effect).__name__, exc_info=error)


def result_from_error(job: ToolJob, error: BaseException) -> str | BaseException:
    """What the model reads about a tool that raised; what is no fault of the tool stays what it is.

    An agent inside whose storage is away, or who is busy, goes on when the thread is taken up again.
    """
    unheard_of = isinstance(error, PlacetError) and not isinstance(error, ModelMisbehaved)
    if not isinstance(error, Exception) or (job.tool.agent is not None and unheard_of):
        return error
    logger.warning("The tool %s failed: %s", job.call.name, type(error).__name__, exc_info=error)
    return describe_failure(error)


def answer_from_outcome(outcome: Outcome) -> str | InterruptionMetadata:
    """What an agent inside says to the one that called it."""
    return outcome.text if isinstance(outcome, AgentResult) else outcome


def check_outcome(last: Event | None) -> Outcome:
    """The last event, which every run ends with."""
    if isinstance(last, AgentResult | InterruptionMetadata):
        return last
    raise ModelMisbehaved("The agent ended without an outcome.")


def join_texts(texts: Sequence[str]) -> str:
    """The reply of a model that sent nothing but iterate_reply of text."""
    if not texts:
        raise ModelMisbehaved("The model answered with nothing.")
    return "".join(texts)
