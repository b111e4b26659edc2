"""How the person gets the link, and what goes wrong between a client and the server behind the gate."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult

from placet.errors import CaseNotOpened, ServerRefused, Unavailable
from placet.hook import MemorySaver
from placet.hook.case_outcome import CaseOutcome
from placet.hook.frameworks.mcp import ApprovalProxy
from placet.hook.frameworks.mcp.call_identity import CALL_META
from placet.hook.frameworks.mcp.results import HELD_META
from placet.hook.gate import Gate
from placet.hook.grants import MemoryGrants
from placet.hook.result_texts import OUTCOME_UNKNOWN
from placet.hook.savers.saver import SavedCheckpoint
from placet.testing.clock import FakeClock
from tests.hook.frameworks.mcp_harness import text_of
from tests.hook.frameworks.mcp_shop import ANN, ERAS, RawShop, ReviewBoard, Shop, is_waiting
from tests.mcp.assistant import wait_until

# How the person gets the link


class Person:
    """Is shown links at the client."""

    def __init__(self, board: ReviewBoard, says: str = "accept") -> None:
        self.board, self.action = board, says
        self.links: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.links.append(params.url)
        if self.action == "accept":
            self.board.approve()
        return ElicitResult(action=self.action)  # type: ignore[arg-type]


@ERAS
def test_a_client_that_can_show_links_shows_it_and_the_call_goes_on(mode: str) -> None:
    async def visit(client: Client) -> None:
        assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"
        assert person.links == ["https://board/c?token=t"]

    board = ReviewBoard()
    person = Person(board)
    Shop(reviews=board, wait_for=30).visit(visit, mode=mode, elicitation_callback=person)


@ERAS
def test_a_link_that_is_declined_decides_nothing_and_the_model_does_not_get_it(mode: str) -> None:
    async def visit(client: Client) -> None:
        result = await client.call_tool("pay", ANN)
        assert is_waiting(result)
        assert "token" not in text_of(result)
        assert "same arguments again" in text_of(result)
        board.approve()
        assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"

    board = ReviewBoard()
    shop = Shop(reviews=board, wait_for=30)
    shop.visit(visit, mode=mode, elicitation_callback=Person(board, "decline"))


@ERAS
def test_any_other_client_gets_the_link_in_the_result(mode: str) -> None:
    async def visit(client: Client) -> None:
        result = await client.call_tool("pay", ANN)
        assert is_waiting(result)
        assert "https://board/c?token=t" in text_of(result)
        assert "2026-12-01" in text_of(result)
        board.approve()
        assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"
        assert len(board.asked) == 1

    board = ReviewBoard()
    Shop(reviews=board).visit(visit, mode=mode)


def test_people_read_which_assistant_asks() -> None:
    from mcp.types import Implementation

    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        assert board.asked[0].startswith("Ann's assistant: ")

    board = ReviewBoard()
    me = Implementation(name="assistant", title="Ann's\nassistant", version="1")
    Shop(reviews=board).visit(visit, mode="legacy", client_info=me)


def test_a_grant_for_a_tool_of_one_server_lets_no_call_of_another_through() -> None:
    async def visit(client: Client) -> None:
        async with prod.open(mode="legacy") as elsewhere:
            assert is_waiting(await client.call_tool("pay", ANN))
            agent, lasts = board.asked[0].rpartition(": ")[0], timedelta(hours=1)
            grants.add(shop.waiting().undecided[0].call, agent=agent, uses=9, lasts_for=lasts, granted_by="b")
            board.approve()
            for _ in range(2):
                assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"
            assert is_waiting(await elsewhere.call_tool("pay", ANN))
        assert (len(shop.did), prod.did) == (2, [])

    board, grants = ReviewBoard(), MemoryGrants()
    shop = Shop(scope="test", reviews=board, grants=grants)
    prod = Shop(scope="production", reviews=ReviewBoard(), grants=grants)
    shop.visit(visit, mode="legacy")


def test_progress_only_grows_from_the_wait_to_the_end_of_the_call() -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)
        board.approve()

    async def visit(client: Client) -> None:
        assert text_of(await client.call_tool("count", {}, progress_callback=note)) == "7"
        assert seen == sorted(set(seen))
        assert len(seen) >= 3

    board = ReviewBoard()
    Shop(reviews=board, wait_for=30).visit(visit, mode="legacy")


# What goes wrong


def test_a_call_nobody_could_be_asked_about_is_held_and_asked_about_later() -> None:
    async def visit(client: Client) -> None:
        board.fails = Unavailable("away")
        result = await client.call_tool("pay", ANN)
        assert is_waiting(result)
        assert "No review page" in text_of(result)
        board.fails = None
        assert "https://board" in text_of(await client.call_tool("pay", ANN))

    board = ReviewBoard()
    shop = Shop(reviews=board)
    shop.visit(visit)
    assert shop.did == []


def test_a_key_that_is_not_taken_holds_every_call() -> None:
    async def visit(client: Client) -> None:
        board.fails = ServerRefused.of(401, {"error": "invalid_token", "message": "This key is unknown."})
        for _ in range(2):
            told = text_of(await client.call_tool("pay", ANN))
            assert "No review page could be opened yet: This key is unknown. Then" in told

    board = ReviewBoard()
    shop = Shop(reviews=board)
    shop.visit(visit)
    assert shop.did == []


def test_a_call_that_nobody_can_ever_be_asked_about_says_so_and_is_forgotten_in_time() -> None:
    async def visit(client: Client) -> None:
        board.fails = CaseNotOpened("No case can be opened.")
        board.fails.__cause__ = ServerRefused.of(400, {"error": "x", "message": "context is too large."})
        result = await client.call_tool("pay", ANN)
        assert (result.meta or {})[HELD_META] == "case_not_opened"
        assert "does not run: context is too large. Do not repeat it unchanged" in text_of(result)
        clock.advance(timedelta(days=8))
        shop.proxy.purge()
        assert shop.proxy.waiting() == ()

    board, clock = ReviewBoard(), FakeClock()
    shop = Shop(reviews=board, saver=MemorySaver(clock=clock), clock=clock)
    shop.visit(visit)
    assert shop.did == []


def test_a_case_that_is_gone_decides_nothing_and_the_next_call_asks_anew() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        board.lost = ServerRefused.of(404, {"error": "not_found", "message": "There is no such case."})
        assert ((await client.call_tool("pay", ANN)).meta or {})[HELD_META] == "not_found"
        board.lost = None
        assert is_waiting(await client.call_tool("pay", ANN))
        assert len(board.asked) == 2

    board = ReviewBoard()
    shop = Shop(reviews=board)
    shop.visit(visit)
    assert shop.did == []


def test_a_gate_that_runs_for_long_forgets_calls_that_nobody_came_for() -> None:
    async def visit(client: Client) -> None:
        assert is_waiting(await client.call_tool("pay", ANN))
        assert is_waiting(await client.call_tool("pay", {"to": "Eve"}))
        dying = next(each for each in shop.proxy.waiting() if each.tool_feedbacks[0].arguments == ANN)
        shop.proxy.answer(dying.thread_id, dying.approve_all())
        assert Gate([], saver, clock=clock).begin(dying.thread_id, dying.tool_feedbacks[0].id).run
        purging = asyncio.create_task(shop.proxy.purge_periodically(timedelta(milliseconds=10)))
        shop.proxy.purge()
        assert (len(saver.list_threads("paused")), len(saver.list_threads("running"))) == (1, 1)
        clock.advance(datetime(2026, 12, 9, tzinfo=UTC) - clock())
        await wait_until(lambda: not saver.list_threads("paused") and not saver.list_threads("running"))
        purging.cancel()
        assert is_waiting(await client.call_tool("pay", ANN))

    clock = FakeClock()
    saver = MemorySaver(clock=clock)
    shop = Shop(reviews=ReviewBoard(), saver=saver, clock=clock)
    shop.visit(visit)
    assert shop.did == []


def test_a_gate_that_died_in_a_call_leaves_it_alone_once_its_lease_is_over() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        found = shop.waiting()
        shop.approve()
        died = Gate([shop.hook], shop.named["saver"], clock=clock)
        assert died.begin(found.thread_id, found.tool_feedbacks[0].id).run
        assert "still running" in text_of(await client.call_tool("pay", ANN))
        clock.advance(timedelta(hours=1))
        assert text_of(await client.call_tool("pay", ANN)) == OUTCOME_UNKNOWN
        assert is_waiting(await client.call_tool("pay", ANN))

    clock = FakeClock()
    shop = Shop(saver=MemorySaver(clock=clock), clock=clock)
    shop.visit(visit)
    assert shop.did == []


def test_of_two_gates_one_runs_the_call_and_the_other_says_so() -> None:
    async def visit(client: Client) -> None:
        other = ApprovalProxy(shop.upstream, shop.hook, **shop.named)
        async with Client(await other.server()) as elsewhere:
            both = asyncio.gather(client.call_tool("pay", ANN), elsewhere.call_tool("pay", ANN))
            await wait_until(shop.proxy.waiting)
            shop.approve()
            told = sorted(text_of(result) for result in await both)
        assert told[1] == "paid Ann 1"
        assert "was not run again" in told[0] or told[0] == told[1]
        assert shop.did == ["Ann 1"]

    shop = Shop(wait_for=30)
    shop.visit(visit)


class UnavailableSaver(MemorySaver):
    """A storage that is away."""

    def get(self, thread_id: str) -> SavedCheckpoint | None:
        raise Unavailable("The disk is gone.")


def test_without_a_storage_no_call_gets_through() -> None:
    async def visit(client: Client) -> None:
        for name, arguments in {"pay": ANN, "look": {}}.items():
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert (result.meta or {})[HELD_META] == "unavailable"
            assert "has not run: The disk is gone." in text_of(result)

    shop = Shop(saver=UnavailableSaver())
    shop.visit(visit)
    assert shop.did == []


def test_an_answer_that_decides_nothing_runs_nothing_and_the_next_call_asks_anew() -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("pay", ANN)
        board.ruling = CaseOutcome(status="decided", decisions={"another call": "approve"})
        result = await client.call_tool("pay", ANN)
        assert (result.meta or {})[HELD_META] == "invalid_feedback"
        board.ruling = None
        assert is_waiting(await client.call_tool("pay", ANN))
        assert len(board.asked) == 2

    board = ReviewBoard()
    shop = Shop(reviews=board)
    shop.visit(visit)
    assert shop.did == []


@pytest.mark.parametrize("name", ["die", "odd", "refuse"])
def test_an_approved_call_that_gets_no_answer_is_not_run_again(tmp_path: Path, name: str) -> None:
    async def visit(client: Client) -> None:
        await client.call_tool(name, {})
        shop.approve()
        result = await client.call_tool(name, {})
        assert result.is_error
        assert {"die": "is unknown", "odd": "sent an invalid response", "refuse": "not like this"}[
            name
        ] in text_of(result)
        assert is_waiting(await client.call_tool(name, {})), "and the server is there again"
        assert shop.count_runs(name) == 1

    shop = RawShop(tmp_path)
    shop.visit(visit)


def test_a_call_that_needs_nobody_is_told_what_became_of_its_server(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        assert "server stopped" in text_of(await client.call_tool("die", {}))
        assert "sent an invalid response" in text_of(await client.call_tool("odd", {}))
        with pytest.raises(MCPError, match="not like this"):
            await client.call_tool("refuse", {})
        meta: Any = {"other/trace": 1, CALL_META: "c"}
        assert (
            text_of(await client.call_tool("echo", ANN, meta=meta)) == '[{"to": "Ann"}, {"other/trace": 1}]'
        )

    RawShop(tmp_path, "die", "odd", "refuse", "echo").visit(visit)


def test_server_output_with_invalid_utf_8_is_read(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        for _ in range(2):
            assert text_of(await client.call_tool("noise", {})) == "heard"
        assert shop.count_runs("started") == 1

    shop = RawShop(tmp_path, "noise")
    shop.visit(visit)


def test_server_that_died_before_the_decision_does_not_lose_it(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("echo", ANN)
        assert text_of(await client.call_tool("leave", {})) == "left"
        shop.approve()
        assert text_of(await client.call_tool("echo", ANN)) == '[{"to": "Ann"}, {}]'
        assert shop.count_runs("started") == 2

    shop = RawShop(tmp_path, "leave")
    shop.visit(visit)


def test_a_huge_result_comes_whole_and_is_not_kept(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        meta: Any = {CALL_META: "c1"}
        await client.call_tool("huge", {}, meta=meta)
        shop.approve()
        assert len(text_of(await client.call_tool("huge", {}, meta=meta))) == 3_000_000
        assert "too large to store" in text_of(await client.call_tool("huge", {}, meta=meta))
        assert shop.count_runs("huge") == 1

    shop = RawShop(tmp_path)
    shop.visit(visit)


def test_a_call_its_client_gives_up_is_cancelled_behind_the_gate_and_not_run_again(tmp_path: Path) -> None:
    async def visit(client: Client) -> None:
        await client.call_tool("slow", {})
        shop.approve()
        calling = asyncio.create_task(client.call_tool("slow", {}))
        await wait_until(lambda: shop.count_runs("slow"))
        calling.cancel()
        await wait_until(lambda: shop.count_runs("cancelled"))
        assert "was interrupted" in text_of(await client.call_tool("slow", {}))
        assert shop.count_runs("slow") == 1

    shop = RawShop(tmp_path)
    shop.visit(visit, mode="legacy")


def test_a_call_its_client_gives_up_while_it_waits_can_be_made_again() -> None:
    async def visit(client: Client) -> None:
        calling = asyncio.create_task(client.call_tool("pay", ANN))
        await wait_until(shop.proxy.waiting)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await client.list_tools()  # the gate reads in order: by now it knows
        shop.approve()
        assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"
        assert shop.did == ["Ann 1"]

    shop = Shop(wait_for=30)
    shop.visit(visit, mode="legacy")


def test_a_server_that_is_not_there_says_so() -> None:
    async def visit(client: Client) -> None:
        raise AssertionError("there is nothing to visit")

    with pytest.raises(Unavailable, match="cannot be reached"):
        Shop(behind=StdioServerParameters(command="no-such-command-anywhere")).visit(visit)


@ERAS
def test_a_server_that_is_gone_for_good_is_named_to_all_who_ask_for_it(tmp_path: Path, mode: str) -> None:
    async def visit(client: Client) -> None:
        assert "server stopped" in text_of(await client.call_tool("die", {}))
        shop.behind = StdioServerParameters(command="no-such-command-anywhere")
        with pytest.raises(MCPError, match="cannot be reached"):
            await client.list_tools()

    shop = RawShop(tmp_path, "die")
    shop.visit(visit, mode=mode, cache=None)


class FollowedBoard(ReviewBoard):
    """A board that says at once when its case is decided, and takes receipts."""

    def __init__(self) -> None:
        super().__init__()
        self.is_decided = threading.Event()
        self.reported: list[tuple[str, str]] = []

    def wait_for_case(self, case: Any, at_most: float) -> None:
        self.approve()
        assert self.is_decided.wait(0) is False

    def report_calls(self, case: Any, receipts: Any) -> None:
        self.reported += [(case["case_id"], receipt["outcome"]) for receipt in receipts]
        self.is_decided.set()


@ERAS
def test_a_client_that_waits_gets_the_result_when_the_case_closes_and_the_case_hears_of_it(mode: str) -> None:
    async def visit(client: Client) -> None:
        assert text_of(await client.call_tool("pay", ANN)) == "paid Ann 1"

    board = FollowedBoard()
    Shop(reviews=board, wait_for=600, poll_interval=300).visit(visit, mode=mode)
    assert board.is_decided.wait(10)
    assert board.reported == [("c", "ran")]
