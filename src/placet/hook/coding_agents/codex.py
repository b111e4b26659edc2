"""Codex: the JSON of its hooks, its hooks.json and its transcripts. Checked on version 0.169.0."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from placet.hook.coding_agents.command_hooks import (
    PERMISSION_REQUEST,
    PRE_TOOL_USE,
    CommandHooks,
    TranscriptUse,
    read_entries,
)
from placet.hook.coding_agents.host_calls import HostCall, HostDecision

SHELL, PATCH = "Bash", "apply_patch"
_COMMAND_MEMBERS = ("cmd", "command")
_EDITABLE = {
    "type": "object",
    "required": ["command"],
    "additionalProperties": False,
    "properties": {"command": {"type": "string"}},
}


class Codex(CommandHooks):
    """Codex, through command hooks for PreToolUse (policy) and PermissionRequest (approval).

    Codex refuses an answer with members that it does not know, and then goes on as usual.
    """

    name = "codex"
    title = "Codex"
    next_step = "Start codex, enter /hooks, and trust both hooks. Until then Codex does not run them."

    shell = SHELL
    path_members = ("path",)
    file_tools = frozenset(("view_image",))
    patch_tools: Mapping[str, str] = {PATCH: "command"}

    def add_details(self, call: HostCall) -> HostCall:
        """Return the call with its command, its files and its editable arguments."""
        detailed = super().add_details(call)
        is_editable = detailed.command is not None and call.event == PRE_TOOL_USE
        return replace(detailed, editable=_EDITABLE if is_editable else None)

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision. An approval before the call is no output: Codex goes on as usual."""
        if decision is None:
            return ""
        is_denied = decision.verdict == "deny"
        output: dict[str, Any] = {"hookEventName": event}
        if event == PERMISSION_REQUEST:
            if not is_denied and decision.arguments is not None:
                is_denied, decision = (
                    True,
                    replace(decision, message="Codex cannot take a changed call here."),
                )
            said = {"behavior": "deny", "message": decision.message} if is_denied else {"behavior": "allow"}
            output["decision"] = said
        elif is_denied:
            output |= {"permissionDecision": "deny", "permissionDecisionReason": decision.message}
        elif decision.arguments is not None:
            output |= {"permissionDecision": "allow", "updatedInput": decision.arguments}
        else:
            return ""
        return json.dumps({"hookSpecificOutput": output})

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the user's hooks.json, in CODEX_HOME or in ~/.codex."""
        folder = environ.get("CODEX_HOME")
        return (PurePosixPath(folder) if folder else home / ".codex") / "hooks.json"

    def find_uses(self, lines: Iterable[str]) -> Iterator[TranscriptUse]:
        """Yield the calls in the lines of a transcript."""
        folder: object = None
        session: object = None
        for entry in read_entries(lines, '"payload"'):
            payload = entry.get("payload")
            if not isinstance(payload, dict):
                continue
            folder = payload.get("cwd") or folder
            if entry.get("type") == "session_meta":
                session = payload.get("id")
            found = _read_use(payload)
            if found is not None:
                tool, arguments = found
                yield TranscriptUse(
                    call_id=payload.get("call_id"),
                    tool=tool,
                    arguments=arguments,
                    folder=folder,
                    session=session,
                )

    def find_results(self, lines: Iterable[str]) -> Iterator[object]:
        """Yield the ids of the calls whose results are in the lines of a transcript."""
        for entry in read_entries(lines, "_output"):
            payload = entry.get("payload")
            if isinstance(payload, dict) and str(payload.get("type")).endswith("call_output"):
                yield payload.get("call_id")

    def is_alike(self, call: HostCall, use: TranscriptUse) -> bool:
        """Return whether a call in the transcript may be this one. A hook's input adds a description."""
        same = {**use.arguments, "description": None} == {**call.arguments, "description": None}
        return use.tool == call.tool and same


def _read_use(payload: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the arguments of a call, as the hooks name them."""
    name, raw = payload.get("name"), payload.get("arguments")
    if payload.get("type") == "custom_tool_call" and isinstance(payload.get("input"), str):
        return str(name), {"command": payload["input"]}
    if payload.get("type") != "function_call" or not isinstance(raw, str):
        return None
    try:
        arguments = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    command = next((arguments[one] for one in _COMMAND_MEMBERS if isinstance(arguments.get(one), str)), None)
    return (SHELL, {"command": command}) if command is not None else (str(name), arguments)


CODING_AGENT = Codex()
