"""Clients that leave while their call waits or runs, over HTTP, and come back for it."""

import asyncio

from tests.hook.frameworks.mcp_harness import run
from tests.hook.frameworks.mcp_shop import ANN, ReviewBoard, Shop
from tests.mcp.assistant import wait_until
from tests.mcp.leaving import connect_caller


def test_a_call_whose_client_left_while_it_waited_runs_for_nobody_and_once_for_who_comes_back() -> None:
    async def main() -> None:
        async with shop.open(), connect_caller(await shop.proxy.server()) as caller:
            call = asyncio.create_task(caller.call("pay", ANN))
            await wait_until(lambda: board.asked)
            await caller.leave(call)
            await wait_until(lambda: not shop.proxy._open_requests)
            board.approve()
            assert "paid Ann 1" in await caller.call("pay", ANN)
        assert shop.did == ["Ann 1"]

    board = ReviewBoard()
    shop = Shop(reviews=board, wait_for=600)
    run(main())


def test_the_outcome_of_a_call_whose_client_left_while_it_ran_is_there_when_it_comes_back() -> None:
    async def main() -> None:
        async with shop.open(), connect_caller(await shop.proxy.server()) as caller:
            call = asyncio.create_task(caller.call("ring", {}))
            await wait_until(lambda: board.asked)
            board.approve()
            await wait_until(lambda: shop.did)
            await caller.leave(call)
            answered.set()
            await wait_until(lambda: not shop.proxy._open_requests)
            assert "hello" in await caller.call("ring", {})
        assert shop.did == ["rang"]

    board, answered = ReviewBoard(), asyncio.Event()
    shop = Shop(reviews=board, wait_for=600)

    @shop.behind.tool()
    async def ring() -> str:
        shop.did.append("rang")
        await answered.wait()
        return "hello"

    run(main())
