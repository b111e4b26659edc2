"""Acknowledged writes survive the death of the process."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from placet.cases.events import find_broken_link
from placet.protocol.poll import Status
from placet.stores.sqlite.store import SqliteStore

WRITING_PROCESS = Path(__file__).with_name("writing_process.py")
KILLS = 5
LINES_BEFORE_THE_KILL = 300


def acknowledged_before_a_kill(path: Path, run: int) -> list[list[str]]:
    """What a process said before it was killed in the middle of its writes."""
    command = [sys.executable, str(WRITING_PROCESS), str(path), f"run{run}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES_BEFORE_THE_KILL + 37 * run)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    return [line.split() for line in lines if line.endswith("\n")]


async def find_lost_cases(path: Path, said: list[list[str]]) -> list[str]:
    """Acknowledged cases that are missing, not answered though they should be, or with a broken chain."""
    store = await SqliteStore.open(path)
    lost = []
    for word, case_id in said:
        case = await store.get_case(case_id)
        answered = case is not None and case.status is Status.COMPLETED
        if (
            case is None
            or (word == "answered" and not answered)
            or find_broken_link(await store.list_events(case_id))
        ):
            lost.append(case_id)
    await store.aclose()
    return lost


@pytest.mark.anyio
async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    said: list[list[str]] = []
    for run in range(KILLS):
        said += acknowledged_before_a_kill(path, run)
        assert await find_lost_cases(path, said) == []
    assert len(said) >= KILLS * LINES_BEFORE_THE_KILL
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"


@pytest.mark.anyio
async def test_a_process_may_write_beside_the_server(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    store = await SqliteStore.open(path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WRITING_PROCESS), str(path), "beside", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        for n in range(100):
            await process.stdout.readline()
            await store.get_or_create_secret(f"name {n}", "value")
        process.kill()
        lines = (await process.stdout.read()).decode().splitlines(keepends=True)
        await process.wait()
    await store.aclose()
    assert await find_lost_cases(path, [line.split() for line in lines if line.endswith("\n")]) == []
