"""A worker process evaluates foreign schemas. Above its limits the answer is refused, and nothing waits."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from placet.errors import InvalidSubmission, Unavailable, ValidationFailed
from placet.reviews.registry import REVIEW_TYPES
from placet.server import evaluation_process
from placet.server.evaluation_process import EvaluationProcess
from placet.testing.desk import create_desk_for_tests

pytestmark = pytest.mark.anyio

LONG_S = 60
READY = "import pickle, struct, sys, time; body = pickle.dumps(('ready', None)); "
WRITES = "sys.stdout.buffer.write(struct.pack('>I', len(body)) + body); sys.stdout.flush(); "
HANGS = (sys.executable, "-c", READY + WRITES + f"time.sleep({LONG_S})")
DIES = (sys.executable, "-c", READY + WRITES + "sys.stdin.buffer.read(4)")
TAKES_MEMORY = (
    sys.executable,
    "-c",
    "from placet.reviews import evaluation_worker as worker; worker.limit_resources(); "
    "worker.evaluate = lambda *request: ('returned', bytearray(2 << 30)); "
    "worker.serve(worker.sys.stdin.buffer, worker.sys.stdout.buffer)",
)
CANNOT_START = ("/nowhere/python",)
RULES = REVIEW_TYPES["approval"].variant_for({"tool_calls": []})


def exists(pid: int) -> bool:
    """Whether the process runs or is not yet reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def worker(**options: Any) -> AsyncIterator[EvaluationProcess]:
    process = EvaluationProcess(**{"deadline_s": LONG_S, **options})
    try:
        yield process
    finally:
        await process.aclose()
    assert process.pid is None


async def test_the_worker_returns_what_the_rules_return_and_raise() -> None:
    async with worker() as process:
        assert await process.run(RULES.recognises, {"tool_calls": []}) == RULES.recognises({"tool_calls": []})
        first = process.pid
        with pytest.raises(ValidationFailed) as apart:
            await process.run(RULES.read_context, {"tool_calls": "x"})
        with pytest.raises(ValidationFailed) as here:
            RULES.read_context({"tool_calls": "x"})
        assert apart.value.body() == here.value.body()
        assert process.pid == first


@pytest.mark.parametrize("command", [HANGS, DIES, TAKES_MEMORY], ids=["hangs", "dies", "takes memory"])
async def test_a_worker_above_its_limits_refuses_the_answer_and_is_reaped(command: tuple[str, ...]) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    beating = asyncio.create_task(beat())
    options = {"deadline_s": 0.3} if command is HANGS else {}
    async with worker(command=command, **options) as process:
        answer = asyncio.create_task(process.run(RULES.recognises, {}))
        while (pid := process.pid) is None:  # noqa: ASYNC110 - told by nobody
            await asyncio.sleep(0)
        with pytest.raises(InvalidSubmission, match="too long to check"):
            await answer
        assert process.pid is None
    beating.cancel()
    assert beats > 1
    assert not exists(pid)


async def test_a_schema_that_takes_too_long_to_read_opens_no_case() -> None:
    calls = [{"id": "a", "name": "x", "arguments": {}, "schema": {"type": "object"}}]
    async with worker(command=HANGS, deadline_s=0.3) as process:
        kit = create_desk_for_tests(evaluator=process)
        with pytest.raises(ValidationFailed, match=r"tool_calls\[0\].schema cannot be used: .*too long"):
            await kit.open(context={"tool_calls": calls})
        assert await kit.store.list_due_cases(kit.clock() + timedelta(days=9_999), limit=1) == []


async def test_a_known_schema_is_not_read_again() -> None:
    calls = [{"id": "a", "name": "x", "arguments": {}, "schema": {"type": "object"}}]
    async with worker() as process:
        kit = create_desk_for_tests(evaluator=process)
        await kit.open(context={"tool_calls": calls})
    await kit.open(context={"tool_calls": calls})
    with pytest.raises(Unavailable):
        await kit.open(context={"tool_calls": [{**calls[0], "schema": {"type": "array"}}]})


async def test_a_worker_that_cannot_start_is_an_outage() -> None:
    async with worker(command=CANNOT_START) as process:
        with pytest.raises(Unavailable):
            await process.run(RULES.recognises, {})


async def test_a_cancelled_request_does_not_leave_its_outcome_for_the_next() -> None:
    async with worker() as process:
        asked = [asyncio.create_task(process.run(RULES.recognises, {"n": n})) for n in range(3)]
        await asyncio.sleep(0)
        asked[0].cancel()
        assert await asyncio.gather(*asked[1:]) == [False, False]


async def test_too_many_waiting_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_process, "MAX_WAITING", 0)
    async with worker() as process:
        with pytest.raises(Unavailable):
            await process.run(RULES.recognises, {})


async def test_nothing_runs_after_the_end() -> None:
    process = EvaluationProcess()
    await process.aclose()
    with pytest.raises(Unavailable):
        await process.run(RULES.recognises, {})
