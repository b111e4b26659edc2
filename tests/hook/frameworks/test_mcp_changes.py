"""What becomes of calls when the server behind the gate changes, or is busy, while the gate runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from assent.hook.frameworks import mcp_upstream
from assent.hook.frameworks.mcp_policy import unless_read_only
from tests.hook.frameworks.mcp_harness import text_of
from tests.hook.frameworks.mcp_shop import ANN, Raw, waits
from tests.mcp.assistant import until

READ_ONLY: dict[str, Any] = {"annotations": {"readOnlyHint": True}}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_tool_that_is_read_only_no_longer_waits_though_nobody_said_so(
    tmp_path: Path, restarts: bool
) -> None:
    async def visit(client: Client) -> None:
        assert text_of(await client.call_tool("echo", ANN)) == '[{"to": "Ann"}, {}]'
        shop.says()
        if restarts:
            assert text_of(await client.call_tool("leave", {})) == "left"
        assert waits(await client.call_tool("echo", ANN))
        assert shop.runs("echo") == 1
        assert shop.runs("started") == (2 if restarts else 1)

    shop = Raw(tmp_path, hook=unless_read_only({"leave": False}))
    shop.says(echo=READ_ONLY)
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
        await until(lambda: shop.runs("busy"))
        with monkeypatch.context() as hurry:
            hurry.setattr(mcp_upstream, "LIST_WITHIN_S", 0.01)
            next_one = asyncio.create_task(client.call_tool("echo", ANN))
            await until(lambda: shop.runs("asked"))
            await asyncio.wait({busy}, timeout=0.3)
        (tmp_path / "go").touch()
        assert text_of(await busy) == "done"
        assert text_of(await next_one) == '[{"to": "Ann"}, {}]'
        assert (shop.runs("busy"), shop.runs("started")) == (1, 1)

    shop = Raw(tmp_path)
    shop.visit(visit)
