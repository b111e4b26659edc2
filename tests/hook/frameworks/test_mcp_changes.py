"""What becomes of calls when the server behind the gate changes, or is busy, while the gate runs."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from placet.hook import MemorySaver
from placet.hook.checkpoint import Checkpoint
from placet.hook.frameworks.mcp import upstream
from placet.hook.frameworks.mcp.call_identity import CALL_META
from placet.hook.frameworks.mcp.policy import gate_unless_read_only
from placet.hook.grants import MemoryGrants
from tests.hook.frameworks.mcp_harness import text_of
from tests.hook.frameworks.mcp_shop import ANN, RawShop, ReviewBoard, is_waiting
from tests.mcp.assistant import wait_until

READ_ONLY: dict[str, Any] = {"annotations": {"readOnlyHint": True}}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_tool_that_is_read_only_no_longer_waits_though_nobody_said_so(
    tmp_path: Path, restarts: bool
) -> None:
    async def visit(client: Client) -> None:
        assert text_of(await client.call_tool("echo", ANN)) == '[{"to": "Ann"}, {}]'
        shop.set_tools()
        if restarts:
            assert text_of(await client.call_tool("leave", {})) == "left"
        assert is_waiting(await client.call_tool("echo", ANN))
        assert shop.count_runs("echo") == 1
        assert shop.count_runs("started") == (2 if restarts else 1)

    shop = RawShop(tmp_path, hook=gate_unless_read_only({"leave": False}))
    shop.set_tools(echo=READ_ONLY)
    shop.visit(visit)


WORDS: dict[str, Any] = {"description": "Pays in play money."}
FORM: dict[str, Any] = {"inputSchema": {"type": "object", "properties": {"to": {"title": "Payee"}}}}


@pytest.mark.parametrize("change", [{"description": "Pays."}, FORM], ids=["words", "schema"])
@pytest.mark.parametrize("meta", [None, {CALL_META: "toolu_1"}], ids=["unnamed", "named"])
def test_an_approval_counts_for_the_tool_that_was_shown_and_for_no_other(
    tmp_path: Path, change: dict[str, Any], meta: Any
) -> None:
    async def visit(client: Client) -> None:
        async def call() -> CallToolResult:
            return await client.call_tool("echo", ANN, meta=meta)

        assert is_waiting(await call())
        shop.approve()
        shop.set_tools(echo={**WORDS, **change})
        assert "has changed the tool" in text_of(await call())
        assert shop.count_runs("echo") == 0
        assert is_waiting(await call())
        assert shop.waiting().undecided[0].description == {**WORDS, **change}["description"]
        shop.approve()
        assert text_of(await call()) == '[{"to": "Ann"}, {}]'

    shop = RawShop(tmp_path, hook=gate_unless_read_only())
    shop.set_tools(echo=WORDS)
    shop.visit(visit)


def test_a_grant_counts_for_the_tool_that_was_shown_and_for_no_other(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        assert is_waiting(await client.call_tool("echo", ANN))
        agent, lasts = board.asked[0].rpartition(": ")[0], timedelta(hours=1)
        grants.add(shop.waiting().undecided[0].call, agent=agent, uses=9, lasts_for=lasts, granted_by="b")
        board.approve()
        for _ in range(2):
            assert text_of(await client.call_tool("echo", ANN)) == '[{"to": "Ann"}, {}]'
        board.ruling = None
        shop.set_tools(echo=WORDS)
        assert is_waiting(await client.call_tool("echo", ANN))
        assert shop.count_runs("echo") == 2

    board, grants = ReviewBoard(), MemoryGrants()
    shop = RawShop(tmp_path, hook=gate_unless_read_only(), scope="raw", reviews=board, grants=grants)
    shop.visit(visit)


class CallStartSaver(MemorySaver):
    """Lets something happen in the moment in which a call begins."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self._happens: Callable[[], None] | None = happens

    def put(self, checkpoint: Checkpoint, *, lease_for: timedelta | None = None) -> None:
        super().put(checkpoint, lease_for=lease_for)
        if checkpoint.started and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()


def test_a_server_that_comes_back_as_another_in_the_moment_of_the_call_does_not_run_it(
    tmp_path: Path,
) -> None:
    async def visit(client: Client) -> None:
        assert is_waiting(await client.call_tool("echo", ANN))
        shop.approve()
        assert "has changed the tool" in text_of(await client.call_tool("echo", ANN))
        assert (shop.count_runs("echo"), shop.count_runs("started")) == (0, 2)

    def is_replaced() -> None:
        shop.set_tools(echo=WORDS)
        shop.upstream._drop(shop.upstream._client)

    shop = RawShop(tmp_path, hook=gate_unless_read_only(), saver=CallStartSaver(is_replaced))
    shop.visit(visit)


def test_a_server_that_is_gone_in_the_moment_of_the_call_does_not_cost_the_decision(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        assert is_waiting(await client.call_tool("echo", ANN))
        shop.approve()
        assert "held and has not run" in text_of(await client.call_tool("echo", ANN))
        shop.behind = there
        assert text_of(await client.call_tool("echo", ANN)) == '[{"to": "Ann"}, {}]'
        assert shop.count_runs("echo") == 1

    def is_gone() -> None:
        shop.behind = StdioServerParameters(command="no-such-command-anywhere")
        shop.upstream._drop(shop.upstream._client)

    shop = RawShop(tmp_path, saver=CallStartSaver(is_gone))
    there = shop.behind
    shop.visit(visit)


def test_words_that_nobody_was_shown_may_change(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("echo", ANN)
        shop.approve()
        shop.set_tools(echo=WORDS)
        assert text_of(await client.call_tool("echo", ANN)) == '[{"to": "Ann"}, {}]'

    shop = RawShop(tmp_path, hook=gate_unless_read_only({"echo": "Pays somebody."}))
    shop.visit(visit)


def test_a_call_that_ran_is_told_and_not_asked_about_again_when_its_tool_changes(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        meta: Any = {CALL_META: "toolu_1"}
        await client.call_tool("echo", ANN, meta=meta)
        shop.approve()
        for _ in range(2):
            assert text_of(await client.call_tool("echo", ANN, meta=meta)) == '[{"to": "Ann"}, {}]'
            shop.set_tools(echo=WORDS)
        assert shop.count_runs("echo") == 1

    shop = RawShop(tmp_path, hook=gate_unless_read_only())
    shop.visit(visit)


def test_a_call_that_comes_while_its_server_is_busy_does_not_end_the_call_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("busy", {})
        shop.approve()
        await client.call_tool("echo", ANN)
        shop.approve()
        busy = asyncio.create_task(client.call_tool("busy", {}))
        await wait_until(lambda: shop.count_runs("busy"))
        with monkeypatch.context() as hurry:
            hurry.setattr(upstream, "LIST_TIMEOUT_S", 0.01)
            next_one = asyncio.create_task(client.call_tool("echo", ANN))
            await wait_until(lambda: shop.count_runs("asked"))
            await asyncio.wait({busy}, timeout=0.3)
        (tmp_path / "go").touch()
        assert text_of(await busy) == "done"
        assert text_of(await next_one) == '[{"to": "Ann"}, {}]'
        assert (shop.count_runs("busy"), shop.count_runs("started")) == (1, 1)

    shop = RawShop(tmp_path)
    shop.visit(visit)
