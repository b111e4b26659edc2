"""Tasks that several threads share: a slow task neither delays nor slows down the others."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any

from placet.hook import MemorySaver, ReactAgent, tool
from placet.hook.workers import Workers

PATIENCE_S = 60
FORKED = """
import os, threading
from placet.hook.workers import Workers

def shared(workers):
    meeting = threading.Barrier(3, timeout=60)
    ended = threading.Semaphore(0)
    workers.share([lambda: (meeting.wait(), ended.release())] * 3)
    return all(ended.acquire(timeout=60) for _ in range(3))

workers = Workers()
assert shared(workers)
child = os.fork()
if child == 0:
    os._exit(0 if shared(workers) else 1)
assert os.waitpid(child, 0)[1] == 0
assert shared(workers)
"""


def make_meeting_tasks(guests: int) -> tuple[list[Callable[[], object]], SimpleQueue[int]]:
    """Tasks that end when all of them have begun, and where they tell it."""
    barrier, came = threading.Barrier(guests, timeout=PATIENCE_S), SimpleQueue[int]()
    return [lambda: came.put(barrier.wait())] * guests, came


def test_tasks_that_wait_for_each_other_all_begin_however_quickly_they_follow_others() -> None:
    workers = Workers()
    for _ in range(5):
        done: list[int] = []
        workers.share([lambda done=done: done.append(1)] * 4)  # type: ignore[misc]
        tasks, came = make_meeting_tasks(4)
        workers.share(tasks)
        assert sorted(came.get(timeout=PATIENCE_S) for _ in tasks) == [0, 1, 2, 3]


def test_a_task_that_takes_its_time_leaves_the_rest_to_others() -> None:
    workers, free, began = Workers(), threading.Event(), SimpleQueue[str]()

    def slow() -> None:
        began.put("slow")
        assert free.wait(PATIENCE_S)

    caller = threading.Thread(target=workers.share, args=([slow, lambda: began.put("quick")],))
    caller.start()
    assert {began.get(timeout=PATIENCE_S), began.get(timeout=PATIENCE_S)} == {"slow", "quick"}
    free.set()
    caller.join(PATIENCE_S)


def test_a_tool_sees_the_context_of_who_called_its_agent_whichever_thread_runs_it() -> None:
    asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")
    barriers = [threading.Barrier(3, timeout=PATIENCE_S) for _ in range(3)]

    @tool(parallel=True)
    def who(number: int) -> str:
        """Who asks."""
        barriers[number].wait()
        return asked_by.get()

    def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        if messages[-1]["role"] == "tool":
            return " ".join(message["content"] for message in messages if message["role"] == "tool")
        number = int(messages[-1]["content"])
        return {"tool_calls": [{"name": "who", "arguments": {"number": number}} for _ in range(3)]}

    agent = ReactAgent("asker", model, [who], saver=MemorySaver())
    for number, name in enumerate(("ada", "bo", "cy")):
        asked_by.set(name)
        ended: Any = agent.invoke(str(number))
        assert ended.text == f"{name} {name} {name}"


def test_a_forked_process_has_threads_of_its_own() -> None:
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    subprocess.run(program, check=True, timeout=60)
