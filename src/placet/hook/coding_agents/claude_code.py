"""Claude Code: the JSON of its hooks, its settings file and its transcripts. Checked on version 2.1.197."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from placet.hook.coding_agents.command_hooks import (
    PERMISSION_REQUEST,
    CommandHooks,
    TranscriptUse,
    read_entries,
)
from placet.hook.coding_agents.host_calls import CallKind, HostCall, HostDecision, HostSettings

_KINDS: Mapping[str, CallKind] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
_AGENT_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TEXT = {"type": "string"}
_EDITABLE: Mapping[str, Mapping[str, Any]] = {
    "Bash": {
        "type": "object",
        "required": ["command"],
        "properties": {
            "command": _TEXT,
            "description": _TEXT,
            "timeout": {"type": "number"},
            "run_in_background": {"type": "boolean"},
        },
    },
    "Write": {
        "type": "object",
        "required": ["file_path", "content"],
        "additionalProperties": False,
        "properties": {"file_path": _TEXT, "content": _TEXT},
    },
    "Edit": {
        "type": "object",
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": False,
        "properties": {
            "file_path": _TEXT,
            "old_string": _TEXT,
            "new_string": _TEXT,
            "replace_all": {"type": "boolean"},
        },
    },
    "WebFetch": {
        "type": "object",
        "required": ["url", "prompt"],
        "properties": {"url": _TEXT, "prompt": _TEXT},
    },
}
"""The arguments that a reviewer may change, by tool. Others are approved or rejected as they are."""


class ClaudeCode(CommandHooks):
    """Claude Code, through command hooks for PreToolUse (policy) and PermissionRequest (approval)."""

    name = "claude-code"
    title = "Claude Code"
    shell = "Bash"
    shell_members = frozenset(("command", "description", "timeout", "run_in_background"))
    path_members = ("file_path", "notebook_path", "path")
    file_tools = frozenset(("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"))
    search_tools: Mapping[str, str] = {"Glob": "pattern", "Grep": "glob", "LS": ""}

    def add_details(self, call: HostCall) -> HostCall:
        """Return the call with its kind, its command, its files and its editable arguments."""
        detailed = super().add_details(call)
        kind = _find_kind(call.tool, call.arguments)
        return replace(detailed, kind=kind, editable=_EDITABLE.get(call.tool))

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision. Its exit code is 0: on PermissionRequest, exit code 2 is ignored."""
        if decision is None:
            return ""
        if event == PERMISSION_REQUEST:
            said: dict[str, Any] = {"behavior": decision.verdict}
            if decision.verdict == "deny":
                said["message"] = decision.message
            elif decision.arguments is not None:
                said["updatedInput"] = decision.arguments
            output: dict[str, Any] = {"hookEventName": event, "decision": said}
        else:
            output = {
                "hookEventName": event,
                "permissionDecision": decision.verdict,
                "permissionDecisionReason": decision.message,
            }
            if decision.verdict == "allow" and decision.arguments is not None:
                output["updatedInput"] = decision.arguments
        return json.dumps({"hookSpecificOutput": output})

    # Settings

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the user's settings.json, in CLAUDE_CONFIG_DIR or in ~/.claude."""
        folder = environ.get("CLAUDE_CONFIG_DIR")
        return (PurePosixPath(folder) if folder else home / ".claude") / "settings.json"

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what in the settings keeps our hooks from running."""
        is_off = settings.get("disableAllHooks") is True
        return ["disableAllHooks is true: no hook runs. Remove it."] if is_off else []

    def find_transcript(self, path: str, agent_id: str) -> str:
        """Return the session's file. A subagent has its own, in a folder beside it."""
        if not _AGENT_ID.fullmatch(agent_id) or not path.endswith(".jsonl"):
            return path
        return f"{path.removesuffix('.jsonl')}/subagents/agent-{agent_id}.jsonl"

    def find_uses(self, lines: Iterable[str]) -> Iterator[TranscriptUse]:
        """Yield the calls in the lines of a transcript."""
        for entry, block in _find_blocks(lines, "tool_use"):
            tool, arguments = block.get("name"), block.get("input")
            if isinstance(tool, str) and isinstance(arguments, dict):
                yield TranscriptUse(
                    call_id=block.get("id"),
                    tool=tool,
                    arguments=arguments,
                    folder=entry.get("cwd"),
                    session=entry.get("sessionId"),
                )

    def find_results(self, lines: Iterable[str]) -> Iterator[object]:
        """Yield the ids of the calls whose results are in the lines of a transcript."""
        return (block.get("tool_use_id") for _, block in _find_blocks(lines, "tool_result"))


def _find_blocks(lines: Iterable[str], kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the entries of a transcript with their content blocks of this kind."""
    for entry in read_entries(lines, kind):
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == kind:
                yield entry, block


def _find_kind(tool: str, arguments: Mapping[str, Any]) -> CallKind:
    kind = _KINDS.get(tool, "tool")
    if kind == "question" and not _are_questions(arguments.get("questions")):
        return "tool"
    if kind == "plan" and not (isinstance(arguments.get("plan"), str) and arguments["plan"].strip()):
        return "tool"
    return kind


def _are_questions(raw: object) -> bool:
    return isinstance(raw, list) and bool(raw) and all(_is_question(one) for one in raw)


def _is_question(one: object) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("question"), str) or not one["question"].strip():
        return False
    options = one.get("options")
    return (
        isinstance(options, list)
        and bool(options)
        and all(isinstance(option, dict) and isinstance(option.get("label"), str) for option in options)
    )


CODING_AGENT = ClaudeCode()
