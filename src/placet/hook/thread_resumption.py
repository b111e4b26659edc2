"""Resuming every thread that can continue, in any process that has the saver."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

from placet.errors import CheckpointConflict, NothingToResume, ThreadBusy, Unavailable
from placet.hook.argument_checks import refuse, require_number
from placet.hook.async_values import offer_event_loop
from placet.hook.checkpoint import Checkpoint
from placet.hook.interruption import InterruptionMetadata
from placet.hook.receipts import ReceiptOutbox
from placet.hook.savers.saver import Saver
from placet.hook.waiting import SAFETY_INTERVAL_S, wait_for_case
from placet.hook.workers import Workers

logger = logging.getLogger(__name__)
ResumedThreads = dict[str, Any]
"""Thread id -> its outcome."""
MAX_FOLLOWED_CASES = 50
"""How many cases are followed at once; the decisions of others are noticed when they are polled."""
_AGENT_MEMBERS = ("saver", "outbox", "reviews", "find_thread", "resume", "aresume")


class ResumableAgent(Protocol):
    """An agent with its threads: a ReactAgent, or what an adapter's `threads_of` returns."""

    @property
    def saver(self) -> Saver:
        """Where the threads are."""
        ...

    @property
    def outbox(self) -> ReceiptOutbox:
        """The receipts of its calls."""
        ...

    @property
    def reviews(self) -> object:
        """Where its calls are decided, or None."""
        ...

    def find_thread(self, checkpoint: Checkpoint) -> str | None:
        """Return the thread to resume if this checkpoint belongs to the agent."""
        ...

    def resume(self, thread_id: str) -> Any:
        """Apply what was decided, and continue."""
        ...

    def aresume(self, thread_id: str) -> Awaitable[Any]:
        """Async version of `resume`."""
        ...


@dataclass(frozen=True, kw_only=True)
class AgentThreads:
    """The threads of an agent whose framework an adapter serves."""

    saver: Saver
    outbox: ReceiptOutbox
    reviews: object
    find_thread: Callable[[Checkpoint], str | None]
    resume: Callable[[str], Any]
    aresume: Callable[[str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _WaitingThread:
    agent: ResumableAgent
    thread_id: str
    checkpoint: Checkpoint


def resume_pending(*agents: ResumableAgent, case_id: str | None = None) -> ResumedThreads:
    """Resume every thread whose calls were decided or expired, or whose process died.

    Call it when a process starts, at intervals, and from a callback handler with its `case_id`. Threads
    that still wait are not changed; one that fails is logged and does not stop the others. Receipts that
    could not be sent are sent.
    """
    _require_agents(agents)
    moved: ResumedThreads = {}
    if case_id is None:
        for agent in agents:
            agent.outbox.send_stored()
    for found in _find_candidates(agents, case_id):
        moved |= _resume(found)
    return moved


async def aresume_pending(*agents: ResumableAgent, case_id: str | None = None) -> ResumedThreads:
    """Async version of `resume_pending`."""
    _require_agents(agents)
    moved: ResumedThreads = {}
    workers, candidates = Workers(), _find_candidates(agents, case_id)
    if case_id is None:
        for agent in agents:
            await agent.outbox.asend_stored()
    while (found := await workers.run(partial(next, candidates, None))) is not None:
        moved |= await _aresume(found)
    return moved


def resume_as_decided(*agents: ResumableAgent, timeout: float | None = None) -> Iterator[tuple[str, Any]]:
    """Resume each thread as soon as its calls are decided; yield the thread's id and its outcome.

    Ends when no thread waits any more, or after `timeout` seconds. The agents' reviews report the end of a
    case at once; without reviews that do, threads are polled. Threads are resumed one after another.
    """
    rest = _Deadline(timeout)
    yield from resume_pending(*agents).items()
    followed: dict[str, _WaitingThread] = {}
    ended: SimpleQueue[str] = SimpleQueue()
    workers = Workers()
    while True:
        for key, waiting in _select_unfollowed(agents, followed).items():
            followed[key] = waiting
            workers.begin(partial(_wait, waiting, rest.seconds()), lambda *_, key=key: ended.put(key))
        if not followed or rest.is_over():
            return
        try:
            key = ended.get(timeout=min(rest.seconds(), SAFETY_INTERVAL_S))
        except Empty:
            continue
        yield from _resume(followed.pop(key)).items()


async def aresume_as_decided(
    *agents: ResumableAgent, timeout: float | None = None
) -> AsyncIterator[tuple[str, Any]]:
    """Async version of `resume_as_decided`."""
    import asyncio

    rest = _Deadline(timeout)
    for moved in (await aresume_pending(*agents)).items():
        yield moved
    followed: dict[asyncio.Task[Any], tuple[str, _WaitingThread]] = {}
    workers = Workers()
    try:
        while True:
            known = dict(followed.values())
            with offer_event_loop(asyncio.get_running_loop()):
                for key, waiting in (await workers.run(partial(_select_unfollowed, agents, known))).items():
                    task = asyncio.create_task(workers.run(partial(_wait, waiting, rest.seconds())))
                    followed[task] = key, waiting
            if not followed or rest.is_over():
                return
            limit = min(rest.seconds(), SAFETY_INTERVAL_S)
            done, _ = await asyncio.wait(followed, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                for moved in (await _aresume(followed.pop(task)[1])).items():
                    yield moved
    finally:
        for task in followed:
            task.cancel()


class _Deadline:
    def __init__(self, timeout: float | None) -> None:
        if timeout is not None:
            require_number("timeout", timeout)
        self._at = None if timeout is None else monotonic() + timeout

    def seconds(self) -> float:
        return SAFETY_INTERVAL_S if self._at is None else max(0.0, self._at - monotonic())

    def is_over(self) -> bool:
        return self._at is not None and monotonic() >= self._at


def _wait(waiting: _WaitingThread, at_most: float) -> None:
    wait_for_case(waiting.agent.reviews, waiting.checkpoint.case, at_most)


def _select_unfollowed(
    agents: tuple[ResumableAgent, ...], followed: Mapping[str, _WaitingThread]
) -> dict[str, _WaitingThread]:
    """Return threads that wait for a decision and are not followed yet, by the key of what they wait for."""
    found = {
        waiting.checkpoint.thread_id: waiting
        for waiting in _find_candidates(agents, None)
        if waiting.checkpoint.stage == "paused" and waiting.checkpoint.thread_id not in followed
    }
    room = max(0, MAX_FOLLOWED_CASES - len(followed))
    return dict(list(found.items())[:room])


def _require_agents(agents: tuple[ResumableAgent, ...]) -> None:
    for agent in agents:
        if not all(hasattr(agent, name) for name in _AGENT_MEMBERS):
            refuse("agents", "agents, as in resume_pending(one, another)", agent)


def _find_candidates(agents: tuple[ResumableAgent, ...], case_id: str | None) -> Iterator[_WaitingThread]:
    for agent in agents:
        seen: set[str] = set()
        for stored_id in (*agent.saver.list_threads("paused"), *agent.saver.list_threads("running")):
            try:
                saved = agent.saver.get(stored_id)
            except Unavailable as error:
                _log_failure(stored_id, error)
                continue
            if saved is None or (thread_id := agent.find_thread(saved.checkpoint)) is None:
                continue
            if thread_id not in seen and (case_id is None or _may_wait_for_case(saved.checkpoint, case_id)):
                seen.add(thread_id)
                yield _WaitingThread(agent, thread_id, saved.checkpoint)


def _may_wait_for_case(checkpoint: Checkpoint, case_id: str) -> bool:
    """Return whether it waits for this case, or for one that a dead process opened without saving it."""
    if checkpoint.case is None:
        return checkpoint.stage == "paused"
    return bool(checkpoint.case.get("case_id") == case_id)


def _resume(found: _WaitingThread) -> ResumedThreads:
    try:
        outcome = found.agent.resume(found.thread_id)
    except Exception as error:
        _log_failure(found.thread_id, error)
        return {}
    return _describe_progress(found, outcome)


async def _aresume(found: _WaitingThread) -> ResumedThreads:
    try:
        outcome = await found.agent.aresume(found.thread_id)
    except Exception as error:
        _log_failure(found.thread_id, error)
        return {}
    return _describe_progress(found, outcome)


def _describe_progress(before: _WaitingThread, outcome: Any) -> ResumedThreads:
    stopped = before.checkpoint.interruption
    same = isinstance(outcome, InterruptionMetadata) and stopped is not None and outcome.id == stopped.id
    return {} if same else {before.thread_id: outcome}


def _log_failure(thread_id: str, error: Exception) -> None:
    if isinstance(error, ThreadBusy | CheckpointConflict | NothingToResume):
        logger.debug("thread_skipped thread=%s reason=in_use", thread_id)
    else:
        logger.warning("thread_resume_failed thread=%s error=%s", thread_id, error, exc_info=error)
