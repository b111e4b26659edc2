"""The hooks of Claude Code, which Codex has taken over: their JSON, and their place in the settings."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from placet.hook.coding_agents.host_calls import (
    HookEntry,
    HostCall,
    HostSettings,
    UnreadableCall,
)

PRE_TOOL_USE, PERMISSION_REQUEST = "PreToolUse", "PermissionRequest"


class TranscriptUse(Struct, frozen=True, kw_only=True):
    """A call in a transcript."""

    call_id: object
    tool: str
    arguments: dict[str, Any]
    folder: object = None
    session: object = None


class CommandHooks(ABC):
    """A coding agent with command hooks for PreToolUse (policy) and PermissionRequest (approval)."""

    name: str
    title: str
    events: tuple[str, ...] = (PRE_TOOL_USE, PERMISSION_REQUEST)
    next_step = ""

    @property
    def _mark(self) -> str:
        """The text by which our hooks are found again in their command."""
        return f"gate run {self.name} --event "

    def read_call(self, event: str, content: bytes) -> HostCall:
        """Return the call that the host reports; raise UnreadableCall."""
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
        return self.build_call(event, tool, arguments, sent)

    def build_call(
        self, event: str, tool: str, arguments: dict[str, Any], sent: Mapping[str, Any]
    ) -> HostCall:
        """Return the call with these parts of the hook's input, or of a transcript."""
        subagent = _get_text(sent, "agent_type") or _get_text(sent, "agent_id")
        call = HostCall(
            host=self.title,
            event=event,
            tool=tool,
            arguments=arguments,
            session=_get_text(sent, "session_id"),
            folder=_get_text(sent, "cwd"),
            mode=_get_text(sent, "permission_mode"),
            call_id=_get_text(sent, "tool_use_id"),
            transcript=self.find_transcript(_get_text(sent, "transcript_path"), _get_text(sent, "agent_id")),
            agents=(self.title, subagent) if subagent else (),
            is_prompted=event == PERMISSION_REQUEST,
        )
        return self.add_details(call)

    @abstractmethod
    def add_details(self, call: HostCall) -> HostCall:
        """Return the call with its kind, command, paths and editable arguments."""

    def change_arguments(self, call: HostCall, arguments: dict[str, Any]) -> HostCall:
        """Return the same call with other arguments."""
        return self.add_details(replace(call, arguments=arguments))

    # Transcripts

    def find_transcript(self, path: str, agent_id: str) -> str:
        """Return the transcript in which a call appears; `agent_id` is that of a subagent, or empty."""
        return path

    @abstractmethod
    def find_uses(self, lines: Iterable[str]) -> Iterator[TranscriptUse]:
        """Yield the calls in the lines of a transcript."""

    @abstractmethod
    def find_results(self, lines: Iterable[str]) -> Iterator[object]:
        """Yield the ids of the calls whose results are in the lines of a transcript."""

    def read_transcript(self, lines: Iterator[str]) -> Iterator[HostCall]:
        """Yield the calls of a session, in order. Other lines are left out."""
        for use in self.find_uses(lines):
            sent = {"cwd": use.folder, "session_id": use.session, "tool_use_id": use.call_id}
            yield self.build_call(PRE_TOOL_USE, use.tool, use.arguments, sent)

    def is_settled(self, call: HostCall, before: Sequence[str], after: Sequence[str]) -> bool:
        """Return whether the call has a result since the hook began: it ran, or was refused in the terminal.

        A permission request does not name its call, so the last one alike counts.
        """
        wanted: object = call.call_id or None
        if wanted is None:
            alike = [use.call_id for use in self.find_uses([*before, *after]) if self.is_alike(call, use)]
            wanted = alike[-1] if alike else None
        return wanted is not None and wanted in self.find_results(after)

    def is_alike(self, call: HostCall, use: TranscriptUse) -> bool:
        """Return whether a call in the transcript may be this one."""
        return use.tool == call.tool and use.arguments == call.arguments

    def is_denial(self, event: str, output: bytes) -> bool:
        """Return whether the host takes this output for a denial."""
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
            kept = _remove_from_groups(groups, self._mark) if isinstance(groups, list) else groups
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
            if _is_ours(hook, self._mark)
        ]


def read_entries(lines: Iterable[str], mark: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines of a transcript that contain this text."""
    for line in lines:
        if mark in line:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield entry


def _remove_from_groups(groups: list[Any], mark: str) -> list[Any]:
    kept = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list) or not any(_is_ours(hook, mark) for hook in hooks):
            kept.append(group)
        elif others := [hook for hook in hooks if not _is_ours(hook, mark)]:
            kept.append({**group, "hooks": others})
    return kept


def _is_ours(hook: object, mark: str) -> bool:
    return isinstance(hook, dict) and isinstance(hook.get("command"), str) and mark in hook["command"]


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
