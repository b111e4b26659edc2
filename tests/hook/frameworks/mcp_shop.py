"""An MCP server behind a gate, a client of it, and a board on which tests decide cases."""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, ToolAnnotations

from placet.hook import HumanInTheLoopHook, InterruptionMetadata, MemorySaver, ToolConfig
from placet.hook.approval_rules import Hook
from placet.hook.case_outcome import CaseOutcome
from placet.hook.feedback import DEFAULT_DECISIONS, FeedbackResult
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.results import WAITING_META
from placet.hook.frameworks.mcp.upstream import McpUpstream
from tests.hook.frameworks.mcp_harness import run

RAW = Path(__file__).with_name("raw_mcp_server.py")
ALL = (*DEFAULT_DECISIONS, FeedbackResult.RESPONDED)
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
ANN = {"to": "Ann"}


class Shop:
    """A gate before a server that notes what it did, and a client of it."""

    def __init__(self, *, hook: Hook | None = None, behind: Any = None, **named: Any) -> None:
        self.did: list[str] = []
        rules: dict[str, ToolConfig | str | bool] = {"*": ToolConfig(allowed_decisions=ALL), "look": False}
        self.hook = hook or HumanInTheLoopHook(rules, optional=["look"])
        self.behind = behind or self.server()
        self.named = {"saver": MemorySaver(), "wait_for": 0, "poll_interval": 0.01, **named}

    def server(self) -> MCPServer:
        server = MCPServer("shop", version="7", instructions="Sells things.", log_level="ERROR")

        @server.tool(annotations=ToolAnnotations(destructive_hint=True))
        async def pay(to: str, amount: int = 1) -> str:
            """Pay somebody."""
            self.did.append(f"{to} {amount}")
            return f"paid {to} {amount}"

        @server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def look() -> dict[str, int]:
            """Look into the till."""
            return {"euros": 7}

        @server.tool()
        async def count(ctx: Context) -> str:
            """Count the till."""
            for number in (1, 2):
                await ctx.report_progress(number, 2, "counting")
            return "7"

        @server.resource("till://today")
        def till() -> str:
            return "7 euros"

        @server.resource("till://{day}")
        def till_of(day: str) -> str:
            return f"{day}: 7 euros"

        @server.prompt()
        def greet(name: str) -> str:
            return f"Greet {name}."

        return server

    @asynccontextmanager
    async def open(self, **client: Any) -> AsyncIterator[Client]:
        async with McpUpstream(lambda: self.behind) as self.upstream:
            self.proxy = ApprovalProxy(self.upstream, self.hook, **self.named)
            async with Client(await self.proxy.server(), **client) as connected:
                yield connected

    def waiting(self) -> InterruptionMetadata:
        [found] = self.proxy.waiting()
        return found

    def decide(self, decide: Callable[[InterruptionMetadata], InterruptionMetadata]) -> None:
        found = self.waiting()
        self.proxy.answer(found.thread_id, decide(found))

    def approve(self) -> None:
        self.decide(lambda waiting: waiting.approve_all())

    def visit(self, visit: Callable[[Client], Awaitable[None]], **client: Any) -> None:
        async def main() -> None:
            async with self.open(**client) as connected:
                await visit(connected)

        run(main())


def is_waiting(result: CallToolResult) -> bool:
    return bool(result.is_error) and WAITING_META in (result.meta or {})


class ReviewBoard:
    """Reviews of a board that is in this test: cases by interruption, and how they ended."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ruling: CaseOutcome | None = None
        self.fails: Exception | None = None
        self.lost: Exception | None = None

    def open_case(
        self, interruption: InterruptionMetadata, *, agent: str, attempt: int = 0
    ) -> dict[str, Any]:
        if self.fails is not None:
            raise self.fails
        self.asked.append(f"{agent}: {interruption.undecided[0].id}")
        return {"case_id": "c", "review_url": "https://board/c?token=t", "expires_at": "2026-12-01T00:00:00Z"}

    def poll_case(self, case: Any) -> CaseOutcome | None:
        if self.lost is not None:
            raise self.lost
        return self.ruling

    def withdraw(self, case: Any, reason: str) -> None:
        return

    def approve(self) -> None:
        decided = {each.rpartition(" ")[2]: "approve" for each in self.asked}
        self.ruling = CaseOutcome(status="decided", decisions=decided)


class RawShop(Shop):
    """A gate before a process that can do anything."""

    def __init__(self, folder: Path, *free: str, **named: Any) -> None:
        command = StdioServerParameters(command=sys.executable, args=["-S", str(RAW), str(folder)])
        rules = HumanInTheLoopHook({"*": True, **dict.fromkeys(free, False)})
        super().__init__(**{"hook": rules, "behind": command, **named})
        self.folder = folder

    def set_tools(self, **tools: dict[str, Any]) -> None:
        """What its server says about its tools from now on; it tells nobody."""
        new = self.folder / "tools.new"
        new.write_text(json.dumps(tools))
        new.replace(self.folder / "tools.json")

    def count_runs(self, name: str) -> int:
        return (self.folder / "runs").read_text().split().count(name)
