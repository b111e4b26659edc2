"""Claude Code: the JSON of its hooks, its settings file and its transcripts. Checked on version 2.1.197."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from placet.hook.coding_agents.host_calls import (
    CallKind,
    HookEntry,
    HostCall,
    HostDecision,
    HostSettings,
    UnreadableCall,
    resolve_path,
)

PRE_TOOL_USE, PERMISSION_REQUEST = "PreToolUse", "PermissionRequest"
MARK = "gate run claude-code --event "
"""Our hooks are found again by this text in their command."""
_KINDS: Mapping[str, CallKind] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
_PATH_MEMBERS = ("file_path", "notebook_path", "path")
_SEARCH_TOOLS = frozenset(("Glob", "Grep", "LS"))
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


class ClaudeCode:
    """Claude Code, through command hooks for PreToolUse (policy) and PermissionRequest (approval)."""

    name = "claude-code"
    title = "Claude Code"
    events = (PRE_TOOL_USE, PERMISSION_REQUEST)

    def read_call(self, event: str, content: bytes) -> HostCall:
        """Return the call that Claude Code reports; raise UnreadableCall."""
        try:
            sent = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UnreadableCall("The hook's input is not valid JSON.") from error
        if not isinstance(sent, dict):
            raise UnreadableCall("The hook's input is not a JSON object.")
        if sent.get("hook_event_name") != event:
            raise UnreadableCall(f"The hook's input is not of the event {event}.")
        tool, arguments = sent.get("tool_name"), sent.get("tool_input")
        if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
            raise UnreadableCall("The hook's input names no tool_name and tool_input.")
        return self._build_call(event, tool, arguments, sent)

    def _build_call(
        self, event: str, tool: str, arguments: dict[str, Any], sent: Mapping[str, Any]
    ) -> HostCall:
        folder = _get_text(sent, "cwd")
        subagent = _get_text(sent, "agent_type") or _get_text(sent, "agent_id")
        return HostCall(
            host=self.title,
            event=event,
            tool=tool,
            arguments=arguments,
            kind=_find_kind(tool, arguments),
            session=_get_text(sent, "session_id"),
            folder=folder,
            mode=_get_text(sent, "permission_mode"),
            call_id=_get_text(sent, "tool_use_id"),
            transcript=_get_text(sent, "transcript_path"),
            agents=(self.title, subagent) if subagent else (),
            command=_find_command(tool, arguments),
            paths=_find_paths(tool, arguments, folder),
            editable=_EDITABLE.get(tool),
            is_prompted=event == PERMISSION_REQUEST,
        )

    def change_arguments(self, call: HostCall, arguments: dict[str, Any]) -> HostCall:
        """Return the same call with other arguments."""
        return replace(
            call,
            arguments=arguments,
            command=_find_command(call.tool, arguments),
            paths=_find_paths(call.tool, arguments, call.folder),
        )

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

    def is_denial(self, event: str, output: bytes) -> bool:
        """Return whether Claude Code takes this output for a denial."""
        try:
            said = json.loads(output)["hookSpecificOutput"]
            if said["hookEventName"] != event:
                return False
            verdict = (
                said["decision"]["behavior"] if event == PERMISSION_REQUEST else said["permissionDecision"]
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        return bool(verdict == "deny")

    # Settings

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the user's settings.json, in CLAUDE_CONFIG_DIR or in ~/.claude."""
        folder = environ.get("CLAUDE_CONFIG_DIR")
        return (PurePosixPath(folder) if folder else home / ".claude") / "settings.json"

    def add_hooks(self, settings: HostSettings, commands: Mapping[str, str], timeout_s: int) -> HostSettings:
        """Return the settings with one hook for each event, after the hooks of others."""
        cleared = self.remove_hooks(settings)
        hooks = dict(cleared.get("hooks", {}))
        for event, command in commands.items():
            ours = {"type": "command", "command": command, "timeout": timeout_s}
            hooks[event] = [*hooks.get(event, []), {"matcher": "*", "hooks": [ours]}]
        return {**cleared, "hooks": hooks}

    def remove_hooks(self, settings: HostSettings) -> HostSettings:
        """Return the settings without our hooks, and without groups and events that held nothing else."""
        if not isinstance(settings.get("hooks"), dict):
            return settings
        hooks = {}
        for event, groups in settings["hooks"].items():
            kept = _remove_from_groups(groups) if isinstance(groups, list) else groups
            if kept or kept == groups:
                hooks[event] = kept
        others = {name: value for name, value in settings.items() if name != "hooks"}
        if not hooks and settings["hooks"]:
            return others
        return {name: hooks if name == "hooks" else value for name, value in settings.items()}

    def find_hooks(self, settings: HostSettings) -> list[HookEntry]:
        """Return our hooks in the settings."""
        return [
            HookEntry(event=event, command=hook["command"], timeout_s=_get_number(hook.get("timeout")))
            for event, groups in _get_dict(settings, "hooks").items()
            for group in (groups if isinstance(groups, list) else ())
            for hook in _get_list(group, "hooks")
            if _is_ours(hook)
        ]

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what in the settings keeps our hooks from running."""
        is_off = settings.get("disableAllHooks") is True
        return ["disableAllHooks is true: no hook runs. Remove it."] if is_off else []

    # Transcripts

    def read_transcript(self, lines: Iterator[str]) -> Iterator[HostCall]:
        """Yield the calls of a session's .jsonl file, in order. Lines of other kinds are left out."""
        for entry, block in _find_blocks(lines, "tool_use"):
            tool, arguments = block.get("name"), block.get("input")
            if isinstance(tool, str) and isinstance(arguments, dict):
                sent = {
                    "cwd": entry.get("cwd"),
                    "session_id": entry.get("sessionId"),
                    "tool_use_id": block.get("id"),
                }
                yield self._build_call(PRE_TOOL_USE, tool, arguments, sent)

    def is_settled(self, call: HostCall, before: Sequence[str], after: Sequence[str]) -> bool:
        """Return whether the call has a result since the hook began: it ran, or was refused in the terminal.

        A permission request does not name its call, so the last one with the same tool and arguments counts.
        """
        alike = [
            block.get("id")
            for _, block in _find_blocks([*before, *after], "tool_use")
            if block.get("name") == call.tool and block.get("input") == call.arguments
        ]
        wanted = call.call_id or (alike[-1] if alike else None)
        results = _find_blocks(after, "tool_result")
        return wanted is not None and any(block.get("tool_use_id") == wanted for _, block in results)


def _find_blocks(lines: Iterable[str], kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the entries of a transcript with their content blocks of this kind."""
    for line in lines:
        if kind not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        message = entry.get("message") if isinstance(entry, dict) else None
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


def _find_command(tool: str, arguments: Mapping[str, Any]) -> str | None:
    command = arguments.get("command")
    return command if tool == "Bash" and isinstance(command, str) else None


def _find_paths(tool: str, arguments: Mapping[str, Any], folder: str) -> tuple[str, ...]:
    named = [arguments[name] for name in _PATH_MEMBERS if isinstance(arguments.get(name), str)]
    if not named and tool in _SEARCH_TOOLS:
        named = [folder]
    return tuple(dict.fromkeys(resolve_path(path, folder) for path in named))


def _remove_from_groups(groups: list[Any]) -> list[Any]:
    kept = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list) or not any(map(_is_ours, hooks)):
            kept.append(group)
        elif others := [hook for hook in hooks if not _is_ours(hook)]:
            kept.append({**group, "hooks": others})
    return kept


def _is_ours(hook: object) -> bool:
    return isinstance(hook, dict) and isinstance(hook.get("command"), str) and MARK in hook["command"]


def _get_text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _get_dict(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def _get_list(values: object, name: str) -> list[Any]:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, list) else []


def _get_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


CODING_AGENT = ClaudeCode()
