"""A Temporal workflow that makes scripted calls, with a worker in a thread, on a development server."""

import asyncio
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.service import RPCError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from examples.stage import find_free_port
    from placet.errors import NothingToResume, ThreadBusy, ThreadPaused
    from placet.hook import (
        HumanInTheLoopHook,
        InterruptionMetadata,
        ServerReviews,
        ToolCall,
        aresume_as_decided,
    )
    from placet.hook.answer_validation import Feedback
    from placet.hook.frameworks.temporal import ApprovedCalls, TemporalApproval
    from placet.hook.thread_resumption import AgentThreads
    from placet.testing.approvals import HOLD, Harness, Scene
    from placet.testing.steps import Disturbance
    from tests.waiting import eventually

T = TypeVar("T")
ADDRESS = "TEMPORAL_ADDRESS"
POLL_S = 0.02
LIMIT_S = 60.0


@contextmanager
def run_dev_server(folder: Path) -> Iterator[str]:
    """A development server of Temporal in memory; its address is in the environment meanwhile."""
    port = find_free_port()
    program = Path(sys.executable).with_name("temporal")
    options = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    with (folder / "temporal.log").open("w") as log:
        server = subprocess.Popen([program, "server", "start-dev", *options], stdout=log, stderr=log)
    os.environ[ADDRESS] = f"127.0.0.1:{port}"
    try:
        yield os.environ[ADDRESS]
    finally:
        del os.environ[ADDRESS]
        server.terminate()
        server.wait(LIMIT_S)


async def connect() -> Client:
    """A client, as soon as the server listens."""
    for _ in range(int(LIMIT_S / POLL_S)):
        try:
            return await Client.connect(os.environ[ADDRESS])
        except RuntimeError:
            await asyncio.sleep(POLL_S)
    raise TimeoutError


@workflow.defn
class ToolLoop:
    """Makes the calls of the scene, turn by turn; returns what the model reads."""

    @workflow.run
    async def run(self, turns: list[list[dict[str, Any]]]) -> list[tuple[str, str]]:
        calls = ApprovedCalls(
            heartbeat_timeout=timedelta(seconds=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50), backoff_coefficient=1.0),
        )
        results: list[tuple[str, str]] = []
        for number, turn in enumerate(turns):
            asked = [ToolCall(**call) for call in turn]
            texts = await calls.run(str(number), asked)
            results += [(call.id, text) for call, text in zip(asked, texts, strict=True)]
        return results


@workflow.defn
class ParentLoop:
    """Runs the calls in a child workflow, as an agent with a sub-agent does."""

    @workflow.run
    async def run(self, turns: list[list[dict[str, Any]]], child: str) -> list[tuple[str, str]]:
        return await workflow.execute_child_workflow(ToolLoop.run, turns, id=child)


class TemporalHarness(Harness):
    """Each harness is a process with a worker; the workflows are on the server."""

    is_async = True
    children = "wait"
    disturbances = frozenset[Disturbance](["kill"])
    forks_after_use = False

    def __init__(
        self,
        folder: Path,
        scene: Scene,
        *,
        more_tools: Sequence[Callable[..., Any]] = (),
        hook: HumanInTheLoopHook | None = None,
        reviews: ServerReviews | None = None,
        **named: Any,
    ) -> None:
        super().__init__(folder, scene, **named)
        self.hook = hook or self.hook
        self.approval = TemporalApproval(
            self.hook,
            tools=[*self.tools, *more_tools],
            saver=self.saver,
            clock=self.clock,
            reviews=reviews or self.reviews,
        )
        self.queue = hashlib.sha256(str(folder).encode()).hexdigest()[:32]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.client, self.worker = self.call(self.begin())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_S)

    async def begin(self) -> tuple[Client, "asyncio.Task[None]"]:
        client = await connect()
        worker = Worker(
            client,
            task_queue=self.queue,
            workflows=[ParentLoop, ToolLoop],
            activities=self.approval.activities,
            max_cached_workflows=0,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )
        return client, asyncio.create_task(worker.run())

    def begin_continuing(self) -> "asyncio.Task[None]":
        """Continue workflows as their cases are decided, in the background."""

        async def go_on() -> None:
            while True:
                async for _ in aresume_as_decided(self.approval.threads_of(self.client)):
                    pass
                await asyncio.sleep(POLL_S)

        async def begin() -> "asyncio.Task[None]":
            return asyncio.create_task(go_on())

        return self.call(begin())

    def handle_of(self, thread_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(f"{self.queue}/{thread_id}", result_type=list[tuple[str, str]])

    def list_turns(self) -> list[list[dict[str, Any]]]:
        return [[call.to_dict() for call in turn] for turn in self.scene.turns]

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return self.call(self.astart(thread_id))

    async def astart(self, thread_id: str) -> InterruptionMetadata | None:
        handle = self.handle_of(thread_id)
        if await self.status(handle) is WorkflowExecutionStatus.RUNNING:
            raise ThreadPaused
        turns = self.list_turns()
        if self.scene.by_child:
            parent = {"id": f"{handle.id}-parent", "task_queue": self.queue}
            await self.client.start_workflow(ParentLoop.run, args=[turns, handle.id], **parent)
            await self.wait_for_child(handle)
        else:
            await self.client.start_workflow(ToolLoop.run, turns, id=handle.id, task_queue=self.queue)
        return await self.wait_for_stop(handle)

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return self.call(self.aresume(thread_id, feedback))

    async def aresume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        handle = self.handle_of(thread_id)
        stopped = await self.find_last_stop(handle)
        answered = await self.approval.answer(self.client, stopped, feedback)
        if answered.undecided:
            return answered
        if not stopped.undecided and (self.folder / HOLD).exists():
            raise ThreadBusy
        return await self.wait_for_stop(handle, past=answered)

    async def find_last_stop(self, handle: WorkflowHandle[Any, Any]) -> InterruptionMetadata:
        """Return the last turn that was stopped, as it is now."""
        if await self.status(handle) is None:
            raise NothingToResume
        run_id = (await handle.describe()).run_id
        for turn in reversed(range(len(self.scene.turns))):
            if stopped := self.approval.approver.waiting(f"{handle.id}/{run_id}/{turn}"):
                return stopped
        if stopped := await self.wait_for_stop(handle):  # a process died before it had stopped the turn
            return stopped
        raise NothingToResume

    async def status(self, handle: WorkflowHandle[Any, Any]) -> WorkflowExecutionStatus | None:
        try:
            return (await handle.describe()).status
        except RPCError:
            return None

    def wait_until_stopped(self, thread_id: str) -> InterruptionMetadata | None:
        return self.call(self.wait_for_stop(self.handle_of(thread_id)))

    async def wait_for_stop(
        self, handle: WorkflowHandle[Any, Any], past: InterruptionMetadata | None = None
    ) -> InterruptionMetadata | None:
        """Return the calls that the workflow waits for, or None when it has ended."""
        for _ in range(int(LIMIT_S / POLL_S)):
            if await self.status(handle) is not WorkflowExecutionStatus.RUNNING:
                await handle.result()
                return None
            waiting = await self.approval.waiting(handle)
            if waiting is not None and (past is None or waiting.id != past.id):
                return waiting
            await asyncio.sleep(POLL_S)
        raise TimeoutError

    async def wait_for_child(self, handle: WorkflowHandle[Any, Any]) -> None:
        for _ in range(int(LIMIT_S / POLL_S)):
            if await self.status(handle) is not None:
                return
            await asyncio.sleep(POLL_S)
        raise TimeoutError

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        handle = self.handle_of(thread_id)
        if self.call(self.status(handle)) is None:
            return []
        return [(call_id, text) for call_id, text in self.call(handle.result())]

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(self.client)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.worker.cancel)
        eventually(self.worker.done)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(LIMIT_S)
        self.loop.close()
        super().close()
