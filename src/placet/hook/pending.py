"""Taking up what people have decided, in whatever process is alive."""

import logging
from collections.abc import Iterator
from functools import partial

from placet.errors import CheckpointConflict, NothingToResume, ThreadBusy, Unavailable
from placet.hook.agent import ReactAgent
from placet.hook.checkpoint import Checkpoint
from placet.hook.events import Outcome
from placet.hook.interruption import InterruptionMetadata
from placet.hook.workers import Workers

logger = logging.getLogger(__name__)
ResumedThreads = dict[str, Outcome]
"""Thread -> what came of it."""


def resume_pending(*agents: ReactAgent, case_id: str | None = None) -> ResumedThreads:
    """Resume every thread whose calls were decided, whose time is over, or whose process died.

    Call it when a process starts, from time to time, and from the handler of a callback, with its `case_id`.
    Threads that still wait are left alone; one that cannot go on is logged and holds up no other.
    """
    moved: ResumedThreads = {}
    for agent, checkpoint in _find_candidates(agents, case_id):
        try:
            outcome = agent.resume(checkpoint.thread_id)
        except Exception as error:
            _log_failure(checkpoint.thread_id, error)
        else:
            moved |= _describe_progress(checkpoint, outcome)
    return moved


async def aresume_pending(*agents: ReactAgent, case_id: str | None = None) -> ResumedThreads:
    """As `resume_pending`, on an event loop."""
    moved: ResumedThreads = {}
    workers, candidates = Workers(), _find_candidates(agents, case_id)
    while (found := await workers.run(partial(next, candidates, None))) is not None:
        agent, checkpoint = found
        try:
            outcome = await agent.aresume(checkpoint.thread_id)
        except Exception as error:
            _log_failure(checkpoint.thread_id, error)
        else:
            moved |= _describe_progress(checkpoint, outcome)
    return moved


def _find_candidates(
    agents: tuple[ReactAgent, ...], case_id: str | None
) -> Iterator[tuple[ReactAgent, Checkpoint]]:
    for agent in agents:
        for thread_id in (*agent.saver.threads("paused"), *agent.saver.threads("running")):
            try:
                kept = agent.saver.get(thread_id)
            except Unavailable as error:
                _log_failure(thread_id, error)
                continue
            if kept is None or kept.checkpoint.agent != agent.name:
                continue
            if case_id is None or _may_wait_for_case(kept.checkpoint, case_id):
                yield agent, kept.checkpoint


def _may_wait_for_case(checkpoint: Checkpoint, case_id: str) -> bool:
    """Whether it waits for this case, or for one that was not kept by who asked, and died."""
    if checkpoint.case is None:
        return checkpoint.stage == "paused"
    return bool(checkpoint.case.get("case_id") == case_id)


def _describe_progress(before: Checkpoint, outcome: Outcome) -> ResumedThreads:
    same = isinstance(outcome, InterruptionMetadata) and (
        before.interruption is not None and outcome.id == before.interruption.id
    )
    return {} if same else {before.thread_id: outcome}


def _log_failure(thread_id: str, error: Exception) -> None:
    if isinstance(error, ThreadBusy | CheckpointConflict | NothingToResume):
        logger.debug("The thread %s is in other hands.", thread_id)
    else:
        logger.warning("The thread %s cannot go on: %s", thread_id, error, exc_info=error)
