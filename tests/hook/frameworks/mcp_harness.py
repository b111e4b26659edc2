"""Drives the gate before an MCP server with the SDK's own client: an agent that keeps its turns in a file."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

from placet.errors import HookError, NothingToResume, ThreadBusy, ThreadPaused
from placet.hook import InterruptionMetadata, ToolCall
from placet.hook.answer_validation import Feedback, validate_answers
from placet.hook.feedback import DecisionMembers
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.call_identity import CALL_META, THREAD_META
from placet.hook.frameworks.mcp.results import HELD_META, WAITING_META
from placet.hook.frameworks.mcp.upstream import McpUpstream
from placet.hook.gate import Gate
from placet.testing.approvals import Harness
from placet.testing.steps import STEPS
from tests.hook.frameworks.answered_calls import parse_verdict

AGENT = "assistant"
T = TypeVar("T")


def text_of(result: CallToolResult) -> str:
    return " ".join(block.text for block in result.content if isinstance(block, TextContent))


class McpHarness(Harness):
    """A new connection for each message: the gate and the server behind it are new ones, too."""

    decides_apart = True

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        if self._path(thread_id).exists():
            raise ThreadPaused
        return run(self._go(thread_id, {"turn": 0, "results": {}, "keys": {}, "answered": []}))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        if not self._path(thread_id).exists():
            raise NothingToResume
        kept = self.read_thread(thread_id)
        if kept["turn"] == len(self.scene.turns):
            run(self._answer_late(kept, feedback))
            if isinstance(feedback, InterruptionMetadata) and feedback.id in kept["answered"]:
                return None
            raise NothingToResume
        return run(self._answer(thread_id, kept, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        stopped = self.start(thread_id)
        return [] if stopped is None else [stopped]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        kept = self.read_thread(thread_id)
        order = [call.id for turn in self.scene.turns for call in turn]
        return [(call_id, kept["results"][call_id]) for call_id in order if call_id in kept["results"]]

    def send_receipts(self) -> None:
        gate = Gate([self.hook], self.saver, agent=AGENT, reviews=self.reviews, clock=self.clock)
        gate.outbox.send_stored()

    def read_thread(self, thread_id: str) -> dict[str, Any]:
        """The agent's own memory of its thread."""
        path = self._path(thread_id)
        return dict(json.loads(path.read_text())) if path.exists() else {"results": {}}

    def keep(self, thread_id: str, kept: dict[str, Any]) -> None:
        """The whole of it or nothing is there when it is read."""
        STEPS.take()
        new = self._path(thread_id).with_suffix(f".{uuid4().hex}")
        new.write_text(json.dumps(kept))
        new.replace(self._path(thread_id))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[ApprovalProxy, Client, McpUpstream]]:
        behind = MCPServer("toolbox", log_level="ERROR")
        for tool in self.tools:
            behind.add_tool(tool)
        async with McpUpstream(lambda: behind) as upstream:
            options: Any = {"reviews": self.reviews, "wait_for": 0, "clock": self.clock}
            proxy = ApprovalProxy(upstream, self.hook, saver=self.saver, agent=AGENT, **options)
            async with Client(await proxy.server(), mode="legacy") as client:
                yield proxy, client, upstream

    async def _go(self, thread_id: str, kept: dict[str, Any]) -> InterruptionMetadata | None:
        async with self._connected() as (proxy, client, _):
            while kept["turn"] < len(self.scene.turns):
                turn = self.scene.turns[kept["turn"]]
                await self._make(turn, client, thread_id, kept)
                self.keep(thread_id, kept)
                if waiting := self._waiting(proxy, kept):
                    return waiting
                kept["turn"] += 1
                self.keep(thread_id, kept)
        return None

    async def _make(
        self, turn: Sequence[ToolCall], client: Client, thread_id: str, kept: dict[str, Any]
    ) -> None:
        """Make the calls of a turn. A client that ran some of them repeats those that another client runs."""
        left = turn
        while left:
            calls = (self._call(client, thread_id, kept, call) for call in left)
            told = await asyncio.gather(*calls, return_exceptions=True)
            wrong = [error for error in told if isinstance(error, BaseException)]
            busy = [call for call, said in zip(left, told, strict=True) if isinstance(said, ThreadBusy)]
            if wrong and (len(busy) == len(turn) or len(wrong) > len(busy)):
                raise next((error for error in wrong if not isinstance(error, ThreadBusy)), wrong[0])
            left = busy

    async def _call(self, client: Client, thread_id: str, kept: dict[str, Any], call: ToolCall) -> None:
        if call.id in kept["results"]:
            return
        meta: Any = {THREAD_META: thread_id, CALL_META: call.id}
        result = await client.call_tool(call.name, call.arguments, meta=meta)
        said: Mapping[str, Any] = result.meta or {}
        if HELD_META in said:
            raise ThreadBusy if said[HELD_META] == ThreadBusy.code else HookError(text_of(result))
        if WAITING_META in said:
            kept["keys"][call.id] = said[WAITING_META]["thread_id"]
        else:
            kept["results"][call.id] = text_of(result)

    async def _answer(
        self, thread_id: str, kept: dict[str, Any], feedback: Feedback | None
    ) -> InterruptionMetadata | None:
        async with self._connected() as (proxy, _, upstream):
            await upstream.refresh()
            waiting = self._waiting(proxy, kept)
            if waiting is not None:  # otherwise the agent died before it had made the calls of this turn
                kept["answered"].append(waiting.id)
                for call_id, said in self._checked(upstream, waiting, feedback).items():
                    proxy.answer(kept["keys"][call_id], said)
                waiting = self._waiting(proxy, kept)
        return waiting if waiting and waiting.undecided else await self._go(thread_id, kept)

    async def _answer_late(self, kept: dict[str, Any], feedback: Feedback | None) -> None:
        if isinstance(feedback, InterruptionMetadata):
            feedback = [call for call in feedback.tool_feedbacks if call.result is not None]
        said = feedback if isinstance(feedback, Mapping) else {call.id: call for call in feedback or ()}
        async with self._connected() as (proxy, _, _):
            for call_id, answer in said.items():
                if call_id in kept["keys"]:
                    one: Any = {call_id: answer} if isinstance(feedback, Mapping) else [answer]
                    proxy.answer(kept["keys"][call_id], one)

    def _checked(
        self, upstream: McpUpstream, waiting: InterruptionMetadata, feedback: Feedback | None
    ) -> dict[str, Feedback | None]:
        """The answers that are new; an agent decides its turn as a whole, so one misfit refuses them all."""
        if feedback is None:
            return dict.fromkeys(call.id for call in waiting.undecided)
        decided = {call.id: parse_verdict(call) for call in waiting.tool_feedbacks if call.result is not None}
        schemas = {name: tool.input_schema for name, tool in upstream.tools.items()}
        verdicts = validate_answers(waiting, feedback, decided=decided, schemas=schemas, now=self.clock())
        return {
            call_id: {call_id: cast(DecisionMembers, verdict.to_dict())}
            for call_id, verdict in verdicts.items()
            if call_id not in decided
        }

    def _waiting(self, proxy: ApprovalProxy, kept: dict[str, Any]) -> InterruptionMetadata | None:
        """The calls of this turn as one question; None if none of them was stopped, or all have answered."""
        turn = self.scene.turns[kept["turn"]]
        keys = [kept["keys"][call.id] for call in turn if call.id in kept["keys"]]
        if not keys or all(call.id in kept["results"] for call in turn):
            return None
        found = [stopped for key in keys if (stopped := proxy.find_stopped(key)) is not None]
        digest = sha256("".join(each.digest for each in found).encode()).hexdigest()
        times = [each.expires_at for each in found if each.expires_at is not None]
        return replace(
            found[0],
            id=f"turn_{digest}",
            digest=digest,
            tool_feedbacks=tuple(call for each in found for call in each.tool_feedbacks),
            tools_automatically_approved=tuple(call for call in turn if call.id not in kept["keys"]),
            expires_at=min(times, default=None),
        )

    def _path(self, thread_id: str) -> Path:
        return self.folder / f"{sha256(thread_id.encode()).hexdigest()}.json"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, which comes in time; what is wrong comes out of the SDK's groups."""
    try:
        return asyncio.run(asyncio.wait_for(work, 60))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
