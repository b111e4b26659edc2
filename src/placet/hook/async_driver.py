"""The driver that awaits; programs that never run an agent on an event loop never import it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from placet.effects import EffectRun
from placet.hook import effects
from placet.hook.agent_steps import arun_step
from placet.hook.checkpoint import Message
from placet.hook.driver import (
    BATCH_WINDOW_S,
    SAVER_EFFECTS,
    LoopDriver,
    ToolOutcomes,
    answer_from_outcome,
    check_outcome,
    iterate_run,
    join_texts,
    result_from_error,
)
from placet.hook.events import AgentEvent, AgentOutcome, TextDelta, ToolJob
from placet.hook.interruption import InterruptionMetadata
from placet.hook.invocation import acall_tool, aiterate_reply
from placet.hook.result_texts import describe_timeout, to_text


class AsyncDriver(LoopDriver):
    """Runs the loop on an event loop; a saver or a tool that blocks is called in a worker thread."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._running: dict[asyncio.Task[Any], ToolJob] = {}

    async def events(self, steps: effects.LoopSteps) -> AsyncIterator[AgentEvent]:
        """Async version of `SyncDriver.events`."""
        run = EffectRun(steps)
        try:
            for step in iterate_run(run):
                try:
                    if isinstance(step, effects.CallModel):
                        reply, texts = None, []
                        async for piece in self._iterate_model_reply(step.messages):
                            if not isinstance(piece, str):
                                reply = piece
                                break
                            texts.append(piece)
                            yield TextDelta(text=piece)
                        run.set_result(join_texts(texts) if reply is None else reply)
                    elif isinstance(step, AgentEvent):
                        yield step
                    else:
                        run.set_result(await self._execute(step))
                except GeneratorExit:
                    raise
                except BaseException as raised:
                    run.set_exception(raised)
        finally:
            await self._arelease_lease()

    async def _arelease_lease(self) -> None:
        if self._held is not None and self._saver.blocking:
            await self._workers.run(self._release_lease)
        else:
            self._release_lease()

    async def _iterate_model_reply(self, messages: Sequence[Message]) -> AsyncIterator[Any]:
        with self._renewing_lease():
            reply = aiterate_reply(await self._call_model(messages), self._workers)
        while True:
            with self._renewing_lease():  # not while the consumer handles an event
                piece = await anext(reply, None)
            if piece is None:
                return
            yield piece

    async def _call_model(self, messages: Sequence[Message]) -> Any:
        if self._model.never_blocks:
            return self._reply(messages)
        return await self._workers.run(partial(self._reply, messages))

    async def outcome(self, steps: effects.LoopSteps) -> AgentOutcome:
        """Return the outcome of the run."""
        last: AgentEvent | None = None
        async for last in self.events(steps):  # noqa: B007 - only the last one counts
            pass
        return check_outcome(last)

    async def _execute(self, effect: effects.Effect) -> Any:
        if isinstance(effect, effects.RunTools | effects.AwaitTools):
            if isinstance(effect, effects.RunTools):
                self._running |= {asyncio.create_task(self._run_job(job)): job for job in effect.jobs}
            with self._heartbeat.renewing(self._saver, effect.checkpoint):
                return await self._await_jobs()
        if isinstance(effect, effects.RunStep):
            return await arun_step(self._steps, effect.name, effect.value, self._workers.run)
        if type(effect) not in SAVER_EFFECTS:
            return await self._turn_driver.aperform(effect, self._workers)
        if self._saver.blocking:
            # On cancellation, wait for the write: only then is it known whether there is a lease to release.
            return await self._workers.run(partial(self._execute_saver_effect, effect), to_the_end=True)
        return self._execute_saver_effect(effect)

    async def _run_job(self, job: ToolJob) -> str | InterruptionMetadata:
        if job.tool.agent is not None:
            driver = job.tool.agent.inner_async_driver(self._name, self._saver, self._turn_driver.outbox)
            return answer_from_outcome(await driver.outcome(self._child_steps(job.tool.agent, job)))
        if job.tool.timeout is None:
            return to_text(await acall_tool(job, self._workers, self._interceptors))
        limit = asyncio.timeout(job.tool.timeout.total_seconds())
        try:
            async with limit:
                return to_text(await acall_tool(job, self._workers, self._interceptors))
        except TimeoutError:
            if not limit.expired():
                raise
            return describe_timeout(job.tool.timeout)

    async def _await_jobs(self) -> ToolOutcomes:
        try:
            done, open_still = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            if done and open_still:
                done, _ = await asyncio.wait(self._running, timeout=BATCH_WINDOW_S)
        except asyncio.CancelledError:
            for task in self._running:
                task.cancel()
            raise
        ended: dict[str, str | InterruptionMetadata | BaseException] = {}
        for task in done:
            job = self._running.pop(task)
            error = RuntimeError("the tool was cancelled") if task.cancelled() else task.exception()
            ended[job.call.id] = task.result() if error is None else result_from_error(job, error)
        return ended
