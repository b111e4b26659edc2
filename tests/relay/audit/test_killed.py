"""A killed process loses the last moment of what passed, and never an event of a hold."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from placet.ports.audit_store import AuditFilter
from placet.ports.hold_store import HoldFilter
from placet.stores.sqlite.store import SqliteStore
from tests.docs.markdown import ROOT

AUDITING_PROCESS = Path(__file__).with_name("auditing_process.py")
A_MOMENT_S = 0.5
"""Ten times what is promised: the machine has other work too."""
LASTS_S = 1.0
ALL = 1_000_000


def read_output_before_kill(path: Path) -> list[tuple[str, int, float]]:
    """What a process said until it was killed, a second after its first words."""
    command = [sys.executable, str(AUDITING_PROCESS), str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    said: list[tuple[str, int, float]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        while not said or said[-1][2] - said[0][2] < LASTS_S:
            said.append(_parse_line(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
        said += [_parse_line(line) for line in process.stdout.readlines() if line.endswith("\n")]
    return said


def _parse_line(line: str) -> tuple[str, int, float]:
    word, number, at = line.split()
    return word, int(number), float(at)


@pytest.mark.anyio
async def test_killed_process_loses_only_unflushed_events_and_no_hold(tmp_path: Path):
    path = tmp_path / "audit.db"
    said = read_output_before_kill(path)
    store = await SqliteStore.open(path)
    rows, _ = await store.list_audit_events("default", AuditFilter(), page=0, size=ALL, order="oldest")
    holds, _ = await store.list_holds("default", HoldFilter(), page=0, size=ALL, order="oldest")
    await store.aclose()

    passed = [int(row.correlation_id) for row in rows if row.type == "COMMUNICATION_AUDIT"]
    assert passed == list(range(len(passed))), "the order is kept, and nothing is missing in between"
    end = said[-1][2]
    due = [number for word, number, at in said if word == "noted" and at < end - A_MOMENT_S]
    assert due, "it lived long enough"
    assert set(due) <= set(passed)

    told = sorted((row.correlation_id, row.type) for row in rows if row.type != "COMMUNICATION_AUDIT")
    kept = [hold.correlation_id for hold in holds]
    assert told == sorted((name, kind) for name in kept for kind in ("HITL", "HITL_GUARD"))
    assert {f"held-{number}" for word, number, _ in said if word == "held"} <= set(kept)
