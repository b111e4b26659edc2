"""An MCP server without a library, for what no library would do: it dies, answers oddly, or says too much."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
TOOLS = ["busy", "die", "echo", "huge", "leave", "noise", "odd", "refuse", "restock", "slow"]


LATER: list[str] = []
"""What came while it was busy."""


def note(line: str) -> None:
    with (FOLDER / "runs").open("a") as runs:
        runs.write(f"{line}\n")


def wait_for_signal() -> str:
    """Be busy until the next message has come, and the test says go."""
    LATER.append(sys.stdin.readline())
    note("asked")
    while not (FOLDER / "go").exists():
        time.sleep(0.01)
    return "done"


def answer(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any] | None:
    note(name)
    match name:
        case "die":
            os._exit(3)
        case "busy":
            text = wait_for_signal()
        case "slow":
            return None
        case "odd":
            return {"result": {"content": "no list"}}
        case "refuse":
            return {"error": {"code": -32602, "message": "not like this"}}
        case "restock":
            write_message({"method": "notifications/tools/list_changed"})
            text = "restocked"
        case "noise":
            sys.stdout.buffer.write(b"\xff\xfe: ready\n")
            text = "heard"
        case "huge":
            text = "x" * 3_000_000
        case "echo":
            text = json.dumps([arguments, {key: value for key, value in meta.items() if "/" in key}])
            if "progressToken" in meta:
                for progress in (1, 2):
                    told = {"progressToken": meta["progressToken"], "progress": progress}
                    write_message({"method": "notifications/progress", "params": told})
        case _:
            text = "left"
    return {"result": {"content": [{"type": "text", "text": text}]}}


def write_message(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def list_tools() -> list[dict[str, Any]]:
    """Its tools, with what the file of this moment says of them."""
    kept = FOLDER / "tools.json"
    said = json.loads(kept.read_text()) if kept.exists() else {}
    return [{"name": name, "inputSchema": SCHEMA, **said.get(name, {})} for name in TOOLS]


def read_lines() -> Iterator[str]:
    while line := LATER.pop() if LATER else sys.stdin.readline():
        yield line


def main() -> None:
    note("started")
    info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    known: dict[str, Any] = {
        "initialize": {**info, "serverInfo": {"name": "raw", "version": "1"}},
    }
    for line in read_lines():
        asked = json.loads(line)
        method, params = asked["method"], asked.get("params") or {}
        if method == "notifications/cancelled":
            note("cancelled")
        elif method == "tools/call":
            said = answer(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
            if said is not None:
                write_message({"id": asked["id"], **said})
            if params["name"] == "leave":
                os._exit(0)
        elif method == "tools/list":
            write_message({"id": asked["id"], "result": {"tools": list_tools()}})
        elif method in known:
            write_message({"id": asked["id"], "result": known[method]})
        elif "id" in asked:
            write_message({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})


main()
