"""Resuming every thread that can continue, in any process that has the saver."""

import logging
from collections.abc import Iterator
from functools import partial

from placet.errors import CheckpointConflict, NothingToResume, ThreadBusy, Unavailable
from placet.hook.agent import ReactAgent
from placet.hook.argument_checks import refuse
from placet.hook.checkpoint import Checkpoint
from placet.hook.events import AgentOutcome
from placet.hook.interruption import InterruptionMetadata
from placet.hook.workers import Workers

logger = logging.getLogger(__name__)
ResumedThreads = dict[str, AgentOutcome]
"""Thread id -> its outcome."""


def resume_pending(*agents: ReactAgent, case_id: str | None = None) -> ResumedThreads:
    """Resume every thread whose calls were decided or expired, or whose process died.

    Call it when a process starts, at intervals, and from a callback handler with its `case_id`. Threads
    that still wait are not changed; one that fails is logged and does not stop the others.
    """
    moved: ResumedThreads = {}
    _require_agents(agents)
    if case_id is None:
        for agent in agents:
            agent.outbox.send_stored()
    for agent, checkpoint in _find_candidates(agents, case_id):
        try:
            outcome = agent.resume(checkpoint.thread_id)
        except Exception as error:
            _log_failure(checkpoint.thread_id, error)
        else:
            moved |= _describe_progress(checkpoint, outcome)
    return moved


async def aresume_pending(*agents: ReactAgent, case_id: str | None = None) -> ResumedThreads:
    """Async version of `resume_pending`."""
    moved: ResumedThreads = {}
    _require_agents(agents)
    workers, candidates = Workers(), _find_candidates(agents, case_id)
    if case_id is None:
        for agent in agents:
            await agent.outbox.asend_stored()
    while (found := await workers.run(partial(next, candidates, None))) is not None:
        agent, checkpoint = found
        try:
            outcome = await agent.aresume(checkpoint.thread_id)
        except Exception as error:
            _log_failure(checkpoint.thread_id, error)
        else:
            moved |= _describe_progress(checkpoint, outcome)
    return moved


def _require_agents(agents: tuple[ReactAgent, ...]) -> None:
    for agent in agents:
        if not isinstance(agent, ReactAgent):
            refuse("agents", "agents, as in resume_pending(one, another)", agent)


def _find_candidates(
    agents: tuple[ReactAgent, ...], case_id: str | None
) -> Iterator[tuple[ReactAgent, Checkpoint]]:
    for agent in agents:
        for thread_id in (*agent.saver.list_threads("paused"), *agent.saver.list_threads("running")):
            try:
                saved = agent.saver.get(thread_id)
            except Unavailable as error:
                _log_failure(thread_id, error)
                continue
            if saved is None or saved.checkpoint.agent != agent.name:
                continue
            if case_id is None or _may_wait_for_case(saved.checkpoint, case_id):
                yield agent, saved.checkpoint


def _may_wait_for_case(checkpoint: Checkpoint, case_id: str) -> bool:
    """Return whether it waits for this case, or for one that a dead process opened without saving it."""
    if checkpoint.case is None:
        return checkpoint.stage == "paused"
    return bool(checkpoint.case.get("case_id") == case_id)


def _describe_progress(before: Checkpoint, outcome: AgentOutcome) -> ResumedThreads:
    same = isinstance(outcome, InterruptionMetadata) and (
        before.interruption is not None and outcome.id == before.interruption.id
    )
    return {} if same else {before.thread_id: outcome}


def _log_failure(thread_id: str, error: Exception) -> None:
    if isinstance(error, ThreadBusy | CheckpointConflict | NothingToResume):
        logger.debug("thread_skipped thread=%s reason=in_use", thread_id)
    else:
        logger.warning("thread_resume_failed thread=%s error=%s", thread_id, error, exc_info=error)
