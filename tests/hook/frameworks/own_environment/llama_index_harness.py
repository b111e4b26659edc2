"""A LlamaIndex workflow that calls a scripted model and its tools; its context is stored in a file."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from placet.errors import NothingToResume, ThreadPaused
from placet.hook import InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.llama_index import ApprovalRequested, WorkflowApproval
from placet.hook.thread_resumption import AgentThreads
from placet.hook.tools import as_tool
from placet.testing.approvals import Harness, Scene


class CallEvent(Event):  # type: ignore[misc,unused-ignore]
    turn: int
    number: int


class ResultEvent(Event):  # type: ignore[misc,unused-ignore]
    turn: int
    number: int
    text: str


class ToolLoop(Workflow):  # type: ignore[misc,unused-ignore]
    """Makes the calls of the scene, turn by turn."""

    def __init__(self, harness: "LlamaIndexHarness", thread_id: str) -> None:
        super().__init__(timeout=None)
        self.harness, self.thread_id = harness, thread_id
        self.tools = {tool.name: tool for tool in map(as_tool, harness.tools)}

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> CallEvent | StopEvent | None:
        await ctx.store.set("results", [])
        return self.reply(ctx, 0)

    @step
    async def call(self, ctx: Context, ev: CallEvent) -> ResultEvent:
        turn = self.harness.scene.turns[ev.turn]
        text = await self.harness.approval.run(
            ctx,
            self.harness.name_turn(self.thread_id, ev.turn),
            turn[ev.number],
            lambda call: asyncio.to_thread(self.tools[call.name].function, **call.arguments),
            turn=turn,
            schemas={name: tool.schema for name, tool in self.tools.items()},
        )
        return ResultEvent(turn=ev.turn, number=ev.number, text=text)

    @step
    async def collect(self, ctx: Context, ev: ResultEvent) -> CallEvent | StopEvent | None:
        calls = self.harness.scene.turns[ev.turn]
        results = ctx.collect_events(ev, [ResultEvent] * len(calls))
        if results is None:
            return None
        results = sorted(results, key=lambda result: result.number)
        known = await ctx.store.get("results")
        new = [(calls[result.number].id, result.text) for result in results]
        await ctx.store.set("results", [*known, *new])
        return self.reply(ctx, ev.turn + 1)

    def reply(self, ctx: Context, turn: int) -> CallEvent | StopEvent | None:
        if turn == len(self.harness.scene.turns):
            return StopEvent(result="done")
        for number, _ in enumerate(self.harness.scene.turns[turn]):
            ctx.send_event(CallEvent(turn=turn, number=number))
        return None


class LlamaIndexHarness(Harness):
    """A workflow under the approval; each run ends when it waits or is done, and its context is stored."""

    resumes_anywhere = False

    def __init__(self, folder: Path, scene: Scene, **named: Any) -> None:
        super().__init__(folder, scene, **named)
        options: Any = {"saver": self.saver, "reviews": self.reviews, "clock": self.clock}
        self.approval = WorkflowApproval(self.hook, **options)

    def name_turn(self, thread_id: str, turn: int) -> str:
        return f"{thread_id}/{turn}"

    def path(self, thread_id: str) -> Path:
        return self.folder / f"{thread_id.encode().hex()}.json"

    def load(self, thread_id: str) -> dict[str, Any]:
        path = self.path(thread_id)
        return json.loads(path.read_text()) if path.exists() else {}

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        if self.load(thread_id).get("key"):
            raise ThreadPaused
        return asyncio.run(self.drive(thread_id, None, []))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        stored = self.load(thread_id)
        key = stored.get("key") or stored.get("last")
        if key is None:
            raise NothingToResume
        decided = self.approval.answer(key, feedback)
        if not decided:
            return self.approval.waiting(key)
        if stored.get("key") is None:
            return None
        return asyncio.run(self.drive(thread_id, stored, decided))

    async def drive(
        self, thread_id: str, stored: dict[str, Any] | None, decided: list[Event]
    ) -> InterruptionMetadata | None:
        workflow = ToolLoop(self, thread_id)
        ctx = Context(workflow) if stored is None else Context.from_dict(workflow, stored["context"])
        handler = workflow.run(ctx=ctx)
        keys = [
            event.key
            async for event in self.approval.events(handler, decided)
            if isinstance(event, ApprovalRequested) and event.key != (stored or {}).get("key")
        ]
        key = keys[0] if keys else None
        if key is None:
            await handler
        kept = {"key": key, "last": key or (stored or {}).get("key"), "context": ctx.to_dict()}
        kept["results"] = await ctx.store.get("results")
        if key is not None:
            await handler.cancel_run()
        new = self.path(thread_id).with_suffix(f".{id(kept)}")
        new.write_text(json.dumps(kept))
        new.rename(self.path(thread_id))
        return None if key is None else self.approval.waiting(key)

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return [(call_id, text) for call_id, text in self.load(thread_id).get("results", [])]

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(lambda key: self.resume(key.rpartition("/")[0], None))
