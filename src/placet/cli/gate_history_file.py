"""The file in which the gate keeps what people decided on this computer."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from placet.hook.coding_agents.gate_history import GateRecord, build_record, parse_records
from placet.hook.coding_agents.host_calls import HostCall, HostDecision

MAX_BYTES = 1024 * 1024


def find_history_file() -> Path:
    """Return the history of this user."""
    from placet.agent.pending_case_store import get_default_path

    return get_default_path().parent / "gate" / "decisions.jsonl"


def read_history() -> list[GateRecord]:
    """Return what people decided, oldest first; nothing if the file cannot be read."""
    with suppress(OSError), find_history_file().open(encoding="utf-8", errors="replace") as lines:
        return list(parse_records(lines))
    return []


def append_decision(call: HostCall, decision: HostDecision) -> None:
    """Keep one decision. A file that cannot be written changes nothing about the decision."""
    with suppress(OSError, ValueError):
        line = msgspec.json.encode(build_record(call, decision, datetime.now(UTC))) + b"\n"
        path = find_history_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MAX_BYTES:
            os.replace(path, path.with_suffix(".old.jsonl"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
