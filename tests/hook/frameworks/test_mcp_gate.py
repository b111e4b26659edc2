"""What only a gate before an MCP server can get wrong: what it hands on, and which call is which."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, PromptReference, ToolAnnotations

from placet.errors import NothingToResume, SettingsError
from placet.hook import HumanInTheLoopHook, MemorySaver, ToolCall
from placet.hook.call_leases import CallStart
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.call_identity import CALL_META
from placet.hook.frameworks.mcp.policy import gate_unless_read_only, read_policy
from placet.hook.gate import Gate
from placet.testing.clock import FakeClock
from tests.hook.frameworks.mcp_harness import text_of
from tests.hook.frameworks.mcp_shop import ANN, ERAS, RawShop, Shop, is_waiting
from tests.mcp.assistant import wait_until

# What is handed on


@ERAS
def test_everything_the_server_offers_is_there_unchanged(mode: str) -> None:
    async def visit(client: Client) -> None:
        async with Client(shop.behind, mode=mode) as direct:
            assert (await client.list_tools()).tools == (await direct.list_tools()).tools
            assert (await client.list_resources()).resources == (await direct.list_resources()).resources
            found = await client.list_resource_templates()
            assert found.resource_templates == (await direct.list_resource_templates()).resource_templates
            assert (await client.list_prompts()).prompts == (await direct.list_prompts()).prompts
            prompt = await client.get_prompt("greet", {"name": "Ann"})
            assert prompt.messages == (await direct.get_prompt("greet", {"name": "Ann"})).messages
            read = await client.read_resource("till://monday")
            assert read.contents == (await direct.read_resource("till://monday")).contents
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("shop", "7")
        assert (client.instructions or "").startswith("Sells things.")

    shop = Shop()
    shop.visit(visit, mode=mode)


def test_completions_are_handed_on() -> None:
    async def visit(client: Client) -> None:
        said = await client.complete(PromptReference(name="greet"), {"name": "name", "value": "A"})
        assert said.completion.values == ["Ann"]

    shop = Shop()

    @shop.behind.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        from mcp.types import Completion

        return Completion(values=["Ann"])

    shop.visit(visit)


def test_gate_offers_no_capability_that_the_server_lacks() -> None:
    async def visit(client: Client) -> None:
        assert client.server_capabilities.resources is None
        assert client.server_capabilities.prompts is None
        with pytest.raises(MCPError):
            await client.list_prompts()

    bare = MCPServer("bare", log_level="ERROR")._lowlevel_server
    for method in ("prompts/list", "prompts/get", "resources/list", "resources/read"):
        bare._request_handlers.pop(method)
    Shop(behind=bare).visit(visit)


def test_a_client_hears_that_the_tools_have_changed(tmp_path: Path) -> None:
    heard: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(message.method)

    async def visit(client: Client) -> None:
        await client.list_tools()
        await client.call_tool("restock", {})
        await wait_until(lambda: "notifications/tools/list_changed" in heard)

    RawShop(tmp_path, "restock").visit(visit, mode="legacy", message_handler=listen)


def test_a_tool_that_became_dangerous_does_not_pass_as_what_it_was() -> None:
    async def visit(client: Client) -> None:
        async def look_waits() -> bool:
            return is_waiting(await client.call_tool("look", {}))

        assert not await look_waits()
        await client.call_tool("swap", {})
        await wait_until(look_waits)

    shop = Shop(hook=gate_unless_read_only({"swap": False}))

    @shop.behind.tool()
    async def swap(ctx: Context) -> str:
        shop.behind.remove_tool("look")
        shop.behind.add_tool(lambda: "sold", name="look", annotations=ToolAnnotations(destructive_hint=True))
        await ctx.notify_tools_changed()
        return "swapped"

    shop.visit(visit)


# Which call is which


@ERAS
def test_the_same_call_made_again_is_the_one_that_waits_and_runs_once(mode: str) -> None:
    async def visit(client: Client) -> None:
        assert is_waiting(await client.call_tool("pay", ANN))
        assert is_waiting(await client.call_tool("pay", ANN))
        shop.approve()
        assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"
        assert is_waiting(await client.call_tool("pay", ANN)), "the approval was for one call"
        assert shop.did == ["Ann 1"]

    shop = Shop()
    shop.visit(visit, mode=mode)


def test_no_approval_counts_for_other_arguments_clients_or_servers() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        shop.approve()
        assert is_waiting(await client.call_tool("pay", {"to": "Eve"}))
        assert is_waiting(await client.call_tool("pay", {"to": "Ann", "amount": 900}))
        other = ApprovalProxy(shop.upstream, shop.hook, scope="other", **shop.named)
        async with Client(await other.server()) as elsewhere:
            assert is_waiting(await elsewhere.call_tool("pay", ANN))
        assert shop.did == []

    shop = Shop()
    shop.visit(visit)


def test_two_clients_with_names_of_their_own_do_not_take_each_others_approval() -> None:
    from mcp.types import Implementation

    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        shop.approve()
        eve = Implementation(name="eve", version="1")
        async with Client(await shop.proxy.server(), mode="legacy", client_info=eve) as other:
            assert is_waiting(await other.call_tool("pay", ANN))
        assert shop.did == []

    shop = Shop()
    shop.visit(visit, mode="legacy", client_info=Implementation(name="ann", version="1"))


def test_the_same_call_twice_at_once_runs_once_and_both_are_told() -> None:
    async def visit(client: Client) -> None:
        both = asyncio.gather(client.call_tool("pay", ANN), client.call_tool("pay", ANN))
        await wait_until(shop.proxy.waiting)
        shop.approve()
        assert [text_of(result) for result in await both] == ["paid Ann 1", "paid Ann 1"]
        assert shop.did == ["Ann 1"]

    shop = Shop(wait_for=30)
    shop.visit(visit)


def test_a_call_made_twice_is_over_once_one_was_told_though_the_other_gave_up() -> None:
    async def visit(client: Client) -> None:
        asking = asyncio.create_task(client.call_tool("ring", {}))
        await wait_until(shop.proxy.waiting)
        await given_up(asking, client)
        shop.approve()
        first = asyncio.create_task(client.call_tool("ring", {}))
        await wait_until(lambda: shop.did)
        other = asyncio.create_task(client.call_tool("ring", {}))
        for _ in range(10):
            await client.list_tools()  # the gate reads in order: by now it waits for the first one
        answered.set()
        assert text_of(await first) == "hello"
        await given_up(other, client)
        third = asyncio.create_task(client.call_tool("ring", {}))
        await wait_until(lambda: third.done() or shop.proxy.waiting())
        assert not third.done(), "it is a new call"
        third.cancel()

    async def given_up(call: "asyncio.Task[CallToolResult]", client: Client) -> None:
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await client.list_tools()

    answered = asyncio.Event()
    shop = Shop(wait_for=60, poll_interval=60)

    @shop.behind.tool()
    async def ring() -> str:
        shop.did.append("rang")
        await answered.wait()
        return "hello"

    shop.visit(visit, mode="legacy")


@pytest.mark.parametrize("name", [None, "", 5])
def test_invalid_call_name_does_not_store_an_outcome(name: Any) -> None:
    async def visit(client: Client) -> None:
        meta: Any = {CALL_META: name}
        await client.call_tool("pay", ANN, meta=meta)
        shop.approve()
        assert text_of(await client.call_tool("pay", ANN, meta=meta)) == "paid Ann 1"
        assert is_waiting(await client.call_tool("pay", ANN, meta=meta))

    shop = Shop()
    shop.visit(visit)


def test_outcome_of_a_named_call_is_kept_until_it_expires() -> None:
    async def visit(client: Client) -> None:
        meta: Any = {CALL_META: "toolu_1"}
        await client.call_tool("pay", ANN, meta=meta)
        assert shop.waiting().tool_feedbacks[0].id == "toolu_1"
        shop.approve()
        for _ in range(2):
            assert text_of(await client.call_tool("pay", ANN, meta=meta)) == "paid Ann 1"
        assert shop.did == ["Ann 1"]
        shop.proxy.purge()
        assert text_of(await client.call_tool("pay", ANN, meta=meta)) == "paid Ann 1"
        clock.advance(timedelta(days=8))
        shop.proxy.purge()
        assert is_waiting(await client.call_tool("pay", ANN, meta=meta))

    clock = FakeClock()
    shop = Shop(saver=MemorySaver(clock=clock), clock=clock)
    shop.visit(visit)


# What people decide


def test_a_rejection_is_an_error_with_the_reason_and_the_next_call_asks_anew() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        shop.decide(lambda waiting: waiting.reject_all("too much"))
        result = await client.call_tool("pay", ANN)
        assert result.is_error
        assert "too much" in text_of(result)
        assert is_waiting(await client.call_tool("pay", ANN))

    shop = Shop()
    shop.visit(visit)
    assert shop.did == []


@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "structured", "fits"),
    [
        ("pay", ANN, "I paid her in cash.", {"result": "I paid her in cash."}, True),
        ("drawer", {}, '{"euros": 9}', {"euros": 9}, True),
        ("drawer", {}, "It is empty.", None, False),
    ],
)
def test_answer_for_a_tool_matches_its_output_schema(
    tool: str, arguments: dict[str, Any], answer: str, structured: Any, fits: bool
) -> None:
    async def visit(client: Client) -> None:
        await client.call_tool(tool, arguments)
        shop.decide(lambda waiting: waiting.respond(waiting.tool_feedbacks[0].id, answer))
        result = await client.call_tool(tool, arguments)
        assert (text_of(result), result.structured_content) == (answer, structured)
        assert bool(result.is_error) is not fits

    from pydantic import BaseModel

    class Drawer(BaseModel):
        euros: int

    shop = Shop()

    @shop.behind.tool()
    def drawer() -> Drawer:
        return Drawer(euros=1)

    shop.visit(visit)


def test_an_edited_call_runs_as_edited_and_keeps_its_structure() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        shop.decide(lambda waiting: waiting.edit_tool("pay", {"to": "Ann", "amount": 2}))
        result = await client.call_tool("pay", ANN)
        assert "A person changed this call" in text_of(result)
        assert result.structured_content == {"result": "paid Ann 2"}
        assert shop.did == ["Ann 2"]

    shop = Shop()
    shop.visit(visit)


# Which calls wait


@pytest.mark.parametrize(
    ("hook", "stopped"),
    [
        (gate_unless_read_only(), {"pay", "count", "hidden"}),
        (gate_unless_read_only({"count": False}), {"pay", "hidden"}),
        (gate_unless_read_only({"look": True}), {"pay", "count", "look", "hidden"}),
        (gate_unless_read_only(trust_annotations=False), {"pay", "count", "look", "hidden"}),
        (gate_unless_read_only({"*": False, "p*": True}), {"pay", "hidden"}),
    ],
)
def test_what_is_not_read_only_waits_unless_a_rule_says_otherwise(
    hook: HumanInTheLoopHook, stopped: set[str]
) -> None:
    async def visit(client: Client) -> None:
        found = set()
        for name, arguments in {"pay": ANN, "count": {}, "look": {}, "hidden": {}}.items():
            found |= {name} if is_waiting(await client.call_tool(name, arguments)) else set()
        assert found == stopped

    Shop(hook=hook).visit(visit)


@pytest.mark.parametrize("name", ["Echo", "echo ", "ech\N{CYRILLIC SMALL LETTER O}", "raw.echo"])
def test_a_name_that_the_server_does_not_list_is_no_way_around_a_rule(tmp_path: Path, name: str) -> None:
    async def visit(client: Client) -> None:
        assert is_waiting(await client.call_tool(name, ANN))
        assert shop.count_runs(name) == 0

    shop = RawShop(tmp_path, hook=HumanInTheLoopHook({"echo": True}))
    shop.visit(visit)


def test_a_file_says_what_waits_and_how() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        await client.call_tool("look", {})
        pay, look = shop.proxy.waiting()
        assert (pay.tool_feedbacks[0].description, look.tool_feedbacks[0].description) == (
            "Pay somebody.",
            "Nosy",
        )
        assert (pay.tool_feedbacks[0].high_risk, pay.default) == (True, "hold")
        assert pay.tool_feedbacks[0].allowed_decisions == ("approve", "reject")
        assert pay.expires_at == pay.created_at + timedelta(minutes=10)
        assert not is_waiting(await client.call_tool("count", {}))

    pay = {"decisions": ["approve", "reject"], "timeout": "10m", "default": "hold", "high_risk": True}
    shop = Shop(hook=read_policy({"tools": {"pay": pay, "look": "Nosy", "c*": False}}))
    shop.visit(visit)


@pytest.mark.parametrize(
    "settings",
    [
        {"trust_annotations": "no"},
        {"tools": ["pay"]},
        {"tools": {"pay": 1}},
        {"tools": {"pay": {"risky": True}}},
        {"tools": {"pay": {"decisions": ["maybe"]}}},
        {"tools": {"pay": {"decisions": "approve"}}},
        {"tools": {"pay": {"timeout": 5}}},
        {"tools": {"pay": {"timeout": "soon"}}},
        {"tools": {"pay": {"default": "approve"}}},
        {"tools": {"pay": {"high_risk": "yes"}}},
        {"tools": {"pay": {"description": 5}}},
        {"others": True},
    ],
    ids=str,
)
def test_a_file_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        read_policy(settings)


def test_an_approval_that_was_used_lets_no_process_run_the_call_that_comes_late() -> None:
    saver, call = MemorySaver(), ToolCall(id="c", name="pay", arguments=ANN)
    early, late, later = (Gate([HumanInTheLoopHook({"pay": True})], saver) for _ in range(3))
    first = early.stop("k", [call])
    assert first is not None
    late.answer("k", first.approve_all())
    assert early.begin("k", "c", interruption=first.id).run
    early.finish("k", "c", "paid")
    early.mark_delivered("k", first.id, "handed out")
    assert later.begin("k", "c", interruption=first.id) == CallStart(run=False, result="handed out")
    second = early.stop("k", [call])
    assert second is not None
    assert second.undecided
    early.mark_delivered("k", first.id, "handed out")
    with pytest.raises(NothingToResume):
        late.begin("k", "c", interruption=first.id)
    waiting = late.waiting("k")
    assert waiting is not None
    assert (waiting.id, len(waiting.undecided)) == (second.id, 1)
