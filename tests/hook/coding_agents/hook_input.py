"""What a coding agent writes to its hooks, and the exchanges recorded with real ones."""

import json
from pathlib import Path
from typing import Any

EXCHANGES = Path(__file__).parent / "exchanges"


def build_input(event: str, tool: str, arguments: dict[str, Any], **others: Any) -> bytes:
    """The input of one call."""
    sent = {
        "session_id": "aeb40aef-6116-4272-9df0-4de5aee5dde2",
        "cwd": "/srv/project",
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": arguments,
    }
    return json.dumps({**sent, **others}).encode()


def load_exchanges(name: str) -> list[dict[str, Any]]:
    """What a real coding agent sent, what the gate answered, and what came of it."""
    return [json.loads(line) for line in (EXCHANGES / f"{name}.jsonl").read_text("utf-8").splitlines()]
