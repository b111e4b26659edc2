"""How long after its decision on a server a call starts that its agent, or its function, waits for."""

import asyncio
import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.drafts import ANSWER
from bench.hook.scene import GO, LAST_WORDS, TOOL
from bench.process import run_server
from bench.quotas import OUT_OF_REACH
from placet.bootstrap.server import build
from placet.client import PlacetClient
from placet.desk import clock
from placet.desk.api_keys import create_key
from placet.hook import (
    HumanInTheLoopHook,
    ReactAgent,
    ServerReviews,
    SqliteSaver,
    requires_approval,
    resume_as_decided,
)
from placet.settings import Settings

DECISIONS = 41
START_WITHIN_S = 30.0
SETTLE_S = 0.05
"""What a person needs at least to decide; the case's events are followed by then."""
OPTIONS: dict[str, Any] = {"inline_actions": ["approve", "reject"]}


class ButtonClient(PlacetClient):
    """A client that remembers how to answer each case with a messenger's button."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self.opened: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def open(self, *args: Any, **named: Any) -> dict[str, Any]:
        """Open the case."""
        answer = super().open(*args, **named)
        self.opened.put(answer["hitl"])
        return answer


def measure(folder: Path, decisions: int = DECISIONS) -> dict[str, float]:
    """Milliseconds from sending the decision to the start of the call, p50: by row."""
    with tempfile.TemporaryDirectory(prefix="hook-wait-", dir=folder) as place:
        key = asyncio.run(_create_key(str(Path(place, "cases.db"))))
        with run_server(Path(place, "cases.db")) as server, ButtonClient(server.url, key) as client:
            return {
                "hook_wait_agent": _measure(client, decisions, _wait_as_agent(client, Path(place))),
                "hook_wait_function": _measure(client, decisions, _wait_as_function(client)),
            }


async def _create_key(db: str) -> str:
    parts = await build(Settings(db=db, **OUT_OF_REACH))
    try:
        return await create_key(parts.store, "bench", now=clock.now())
    finally:
        await parts.stop()


StartWaiting = Callable[[Callable[[], None]], Callable[[], None]]
"""Takes what marks the start of the call; returns what opens a case, waits and runs the call."""


def _measure(client: ButtonClient, decisions: int, start: StartWaiting) -> float:
    began: queue.SimpleQueue[float] = queue.SimpleQueue()
    wait = start(lambda: began.put(time.perf_counter()))
    taken = []
    with httpx.Client() as messenger:
        for _ in range(decisions):
            with _running(wait):
                case = client.opened.get(timeout=START_WITHIN_S)
                time.sleep(SETTLE_S)
                sent = time.perf_counter()
                _press(messenger, case)
                taken.append((began.get(timeout=START_WITHIN_S) - sent) * 1000)
    return statistics.median(taken)


def _press(messenger: httpx.Client, case: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {case['submit_token']}"}
    answer = {**ANSWER, "data": {}}
    messenger.post(case["submit_url"], json=answer, headers=headers).raise_for_status()


@contextmanager
def _running(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(START_WITHIN_S)


def _wait_as_agent(client: PlacetClient, folder: Path) -> StartWaiting:
    def start(mark: Callable[[], None]) -> Callable[[], None]:
        def pay() -> str:
            """Pay."""
            mark()
            return "paid"

        def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
            if messages[-1]["role"] == "tool":
                return {"content": LAST_WORDS}
            return {"tool_calls": [{"id": "call_1", "name": TOOL, "arguments": {}}]}

        agent = ReactAgent(
            "payer",
            model,
            [pay],
            hooks=[HumanInTheLoopHook({TOOL: True})],
            saver=SqliteSaver(folder / "threads.db"),
            reviews=ServerReviews(client, **OPTIONS),
        )

        def wait() -> None:
            agent.invoke(GO)
            for _ in resume_as_decided(agent, timeout=START_WITHIN_S):
                return

        return wait

    return start


def _wait_as_function(client: PlacetClient) -> StartWaiting:
    def start(mark: Callable[[], None]) -> Callable[[], None]:
        @requires_approval(reviews=ServerReviews(client, **OPTIONS))
        def pay() -> None:
            mark()

        return pay

    return start
