"""Agents beside what goes wrong: threads that fail, notebooks with a loop of their own, odd storages."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

from assent.hook import HumanInTheLoopHook, MemorySaver, ReactAgent, resume_pending
from assent.hook.checkpoint import Checkpoint
from assent.hook.heartbeat import Heartbeat
from tests.hook.scripted import Office, Scripted, call, finished, stopped


def test_a_thread_whose_model_breaks_does_not_hold_up_the_others() -> None:
    office, saver = Office(), MemorySaver()
    hook = HumanInTheLoopHook({"execute_sql": True})

    def model(messages: list[dict[str, Any]]) -> Any:
        if messages[-1]["role"] == "user":
            return {"tool_calls": [call("c1", "execute_sql", query=messages[0]["content"])]}
        if messages[0]["content"] == "bad":
            raise LookupError("no such model")
        return "done"

    agent = ReactAgent("office", model, office.tools, [hook], saver)
    for name in ("bad", "good"):
        stopped(agent.invoke(name, thread_id=name))
        kept = saver.get(name)
        assert kept is not None
        saver.put(kept.checkpoint.next(stage="running", started=("c1",)))  # its process died
    assert list(resume_pending(agent)) == ["good"]


def test_async_models_and_tools_work_in_a_notebook() -> None:
    async def look() -> str:
        return "seen"

    model = Scripted([call("1", "look"), call("2", "look")], "done")

    async def thinks(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        return model(messages, tools)

    async def cell() -> str:
        return finished(ReactAgent("notebook", thinks, [look]).invoke("go")).text

    assert asyncio.run(cell()) == "done"
    assert model.results() == ["seen", "seen"]


def test_a_storage_that_fails_oddly_once_does_not_end_the_heartbeat() -> None:
    beats = threading.Semaphore(0)

    class Odd(MemorySaver):
        def renew(self, thread_id: str, rev: int, *, lease_for: timedelta) -> None:
            beats.release()
            raise LookupError

    with Heartbeat(timedelta(milliseconds=3)).holding(Odd(), Checkpoint(thread_id="t")):
        assert all(beats.acquire(timeout=5) for _ in range(3))


def test_a_tool_that_changes_what_it_was_given_is_not_told_as_a_persons_edit() -> None:
    def pack(items: list[str]) -> str:
        items.clear()
        return "packed"

    model = Scripted([call("1", "pack", items=["a"])], "done")
    agent = ReactAgent("packer", model, [pack], [HumanInTheLoopHook({"pack": True})])
    waiting = stopped(agent.invoke("go", thread_id="t"))
    ended = finished(agent.resume("t", waiting.approve_all()))
    assert model.results() == ["packed"]
    assert ended.messages[1]["tool_calls"][0]["arguments"] == {"items": ["a"]}
