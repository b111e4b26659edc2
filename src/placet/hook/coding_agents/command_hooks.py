"""Hooks of coding agents: their place in a JSON settings file, and what Claude Code and Codex share."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from placet.hook.coding_agents.file_arguments import (
    find_patched_files,
    find_search_root,
    format_patch,
    list_paths,
    list_texts,
    resolve_path,
)
from placet.hook.coding_agents.host_calls import (
    PROBE_TOOL,
    HookEntry,
    HostCall,
    HostDecision,
    HostSettings,
    UnreadableCall,
)
from placet.hook.coding_agents.json_text import change_json, parse_json

PRE_TOOL_USE, PERMISSION_REQUEST = "PreToolUse", "PermissionRequest"


class TranscriptUse(Struct, frozen=True, kw_only=True):
    """A call in a transcript."""

    call_id: object
    tool: str
    arguments: dict[str, Any]
    folder: object = None
    session: object = None


class HookHost(ABC):
    """A coding agent with hooks in a JSON file: `{"hooks": {EVENT: [{"matcher": …, "hooks": […]}]}}`."""

    name: str
    title: str
    events: tuple[str, ...]
    next_step = ""
    has_transcripts = False
    allows_comments = False
    """Whether the host reads a settings file with comments."""
    timeout_unit_s: ClassVar[float] = 1
    """The unit of the timeout in the settings."""
    shell = ""
    """The tool that runs a command."""
    command_member = "command"
    shell_members: frozenset[str] = frozenset()
    """The arguments of the shell with which a command does what it says. Empty if they are not known."""
    folder_members: tuple[str, ...] = ()
    """The arguments of the shell that name a working directory of the command's own."""
    path_members: tuple[str, ...] = ()
    file_tools: frozenset[str] = frozenset()
    """The tools that reach only files that `path_members` name."""
    search_tools: Mapping[str, str] = {}
    """Tool -> the argument with a glob pattern, below the path or the working directory."""
    patch_tools: Mapping[str, str] = {}
    """Tool -> the argument with a patch in the form of `apply_patch`."""
    session_member = "session_id"
    roots_member = ""
    """The member of the input that lists the folders of the project, the first one for `cwd`."""
    prompting_events: tuple[str, ...] = ()
    """The events at which a person is asked without a rule."""
    editable: Mapping[str, Any] | None = None
    """The JSON Schema of the shell's arguments, if the host takes changed ones."""

    @property
    def mark(self) -> str:
        """The text by which our hooks are found again in their command."""
        return f"gate run {self.name} --event "

    # Calls

    def read_call(self, event: str, content: bytes) -> HostCall:
        """Return the call that the host reports; raise UnreadableCall."""
        sent = read_object(content)
        tool, arguments = self.find_tool(event, sent)
        if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
            raise UnreadableCall("The hook's input does not name a tool and its arguments.")
        return self.build_call(event, tool, arguments, sent)

    def find_tool(self, event: str, sent: Mapping[str, Any]) -> tuple[object, object]:
        """Return the tool and its arguments in the hook's input; raise UnreadableCall for another event."""
        if sent.get("hook_event_name") != event:
            raise UnreadableCall(f"The hook's input is not of the event {event}.")
        return sent.get("tool_name"), sent.get("tool_input")

    def build_call(
        self, event: str, tool: str, arguments: dict[str, Any], sent: Mapping[str, Any]
    ) -> HostCall:
        """Return the call with these parts of the hook's input."""
        call = HostCall(
            host=self.title,
            event=event,
            tool=tool,
            arguments=arguments,
            session=get_text(sent, self.session_member),
            folder=self._find_folder(tool, arguments, sent),
            call_id=get_text(sent, "tool_use_id"),
            is_prompted=event in self.prompting_events,
        )
        return self.add_details(call)

    def _find_folder(self, tool: str, arguments: Mapping[str, Any], sent: Mapping[str, Any]) -> str:
        roots = [root for root in _get_list(sent, self.roots_member) if isinstance(root, str)]
        folder = get_text(sent, "cwd") or next(iter(roots), "")
        members = self.folder_members if tool == self.shell else ()
        named = next((text for name in members if (text := get_text(arguments, name))), "")
        return resolve_path(named, folder) if named else folder

    def add_details(self, call: HostCall) -> HostCall:
        """Return the call with its command, its files and its editable arguments."""
        command = call.arguments.get(self.command_member)
        if call.tool == self.shell and isinstance(command, str):
            unknown = {name for name, value in call.arguments.items() if value} - self.shell_members
            is_clear = not (self.shell_members and unknown)
            return replace(call, command=command, is_clear=is_clear, editable=self.editable)
        patch = call.arguments.get(self.patch_tools.get(call.tool, ""))
        if isinstance(patch, str):
            named = list_paths(*find_patched_files(patch), folder=call.folder)
            return replace(call, command=None, paths=named, diff=format_patch(patch), editable=None)
        named, is_known = self._find_files(call), call.tool in {*self.file_tools, *self.search_tools}
        texts = () if is_known else list_paths(*list_texts(call.arguments), folder=call.folder)
        return replace(call, command=None, paths=named, texts=texts, editable=None)

    def _find_files(self, call: HostCall) -> tuple[str, ...]:
        named = [text for name in self.path_members if (text := get_text(call.arguments, name))]
        if call.tool not in self.search_tools:
            return list_paths(*named, folder=call.folder)
        bases = list_paths(*(named or [""]), folder=call.folder)
        root = find_search_root(get_text(call.arguments, self.search_tools[call.tool]))
        return tuple(dict.fromkeys([*bases, *list_paths(root, folder=bases[0])]))

    @abstractmethod
    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return what the hook prints."""

    def change_arguments(self, call: HostCall, arguments: dict[str, Any]) -> HostCall:
        """Return the same call with other arguments."""
        return self.add_details(replace(call, arguments=arguments))

    def is_denial(self, event: str, output: bytes) -> bool:
        """Return whether the host takes this output for a denial."""
        try:
            return self.find_verdict(event, json.loads(output)) == "deny"
        except (ValueError, TypeError, KeyError, RecursionError):
            return False

    @abstractmethod
    def find_verdict(self, event: str, said: Any) -> object:
        """Return the verdict in an output of the hook; raise TypeError or KeyError if there is none."""

    def build_probe(self, event: str, folder: str) -> dict[str, Any]:
        """Return what the host would send to the hook about a call of PROBE_TOOL."""
        return {
            "hook_event_name": event,
            "session_id": "probe",
            "cwd": folder,
            "permission_mode": "default",
            "tool_name": PROBE_TOOL,
            "tool_input": {"purpose": "placet gate doctor"},
        }

    def is_settled(self, call: HostCall, before: Sequence[str], after: Sequence[str]) -> bool:
        """Return whether the call has ended. A host without transcripts does not say."""
        return False

    def read_transcript(self, lines: Iterator[str]) -> Iterator[HostCall]:
        """Yield the calls of a session."""
        return iter(())

    # Settings

    @abstractmethod
    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the file of the user's settings."""

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what in the settings keeps our hooks from running."""
        return []

    def parse_settings(self, text: str) -> HostSettings:
        """Return the settings in a file; raise ValueError if they cannot be changed safely."""
        if not text.strip():
            return {}
        found = parse_json(text, allows_comments=True)
        if not self.allows_comments:
            try:
                parse_json(text)
            except ValueError as error:
                raise ValueError(f"it has comments, and {self.title} reads no file with comments") from error
        if not isinstance(found, dict) or not self.has_known_form(found):
            raise ValueError("it has hooks in a form that is not known")
        return found

    def has_known_form(self, settings: HostSettings) -> bool:
        """Return whether hooks can be added to these settings."""
        hooks = settings.get("hooks", {})
        return isinstance(hooks, dict) and all(isinstance(groups, list) for groups in hooks.values())

    def format_settings(self, settings: HostSettings, before: str) -> str | None:
        """Return the text of the settings, with the layout, the order and the comments of before."""
        return change_json(before, settings, allows_comments=self.allows_comments)

    def build_entry(self, command: str, timeout_s: int) -> dict[str, Any]:
        """Return one entry below an event."""
        timeout = round(timeout_s / self.timeout_unit_s)
        return {"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": timeout}]}

    def add_hooks(self, settings: HostSettings, commands: Mapping[str, str], timeout_s: int) -> HostSettings:
        """Return the settings with one hook for each event, after the hooks of others."""
        cleared = self.remove_hooks(settings)
        hooks = dict(cleared.get("hooks", {}))
        for event, command in commands.items():
            hooks[event] = [*hooks.get(event, []), self.build_entry(command, timeout_s)]
        return {**cleared, "hooks": hooks}

    def remove_hooks(self, settings: HostSettings) -> HostSettings:
        """Return the settings without our hooks, and without groups and events that held nothing else."""
        if not isinstance(settings.get("hooks"), dict):
            return settings
        hooks = {}
        for event, groups in settings["hooks"].items():
            kept = _remove_from_groups(groups, self.mark) if isinstance(groups, list) else groups
            if kept or kept == groups:
                hooks[event] = kept
        others = {name: value for name, value in settings.items() if name != "hooks"}
        if not hooks and settings["hooks"]:
            return others
        return {name: hooks if name == "hooks" else value for name, value in settings.items()}

    def find_hooks(self, settings: HostSettings) -> list[HookEntry]:
        """Return our hooks in the settings."""
        return [
            self.read_entry(event, hook)
            for event, groups in get_dict(settings, "hooks").items()
            for group in (groups if isinstance(groups, list) else ())
            for hook in (group, *_get_list(group, "hooks"))
            if _is_ours(hook, self.mark)
        ]

    def read_entry(self, event: str, hook: Mapping[str, Any]) -> HookEntry:
        """Return one hook of ours."""
        timeout = _get_number(hook.get("timeout"))
        timeout_s = None if timeout is None else timeout * self.timeout_unit_s
        return HookEntry(event=event, command=hook["command"], timeout_s=timeout_s)


class CommandHooks(HookHost):
    """The hooks of Claude Code and Codex: PreToolUse for policy, PermissionRequest for approval."""

    events: tuple[str, ...] = (PRE_TOOL_USE, PERMISSION_REQUEST)
    prompting_events = (PERMISSION_REQUEST,)
    has_transcripts = True

    def build_call(
        self, event: str, tool: str, arguments: dict[str, Any], sent: Mapping[str, Any]
    ) -> HostCall:
        """Return the call with these parts of the hook's input, or of a transcript."""
        subagent = get_text(sent, "agent_type") or get_text(sent, "agent_id")
        return replace(
            super().build_call(event, tool, arguments, sent),
            mode=get_text(sent, "permission_mode"),
            transcript=self.find_transcript(get_text(sent, "transcript_path"), get_text(sent, "agent_id")),
            agents=(self.title, subagent) if subagent else (),
        )

    def find_verdict(self, event: str, said: Any) -> object:
        """Return the verdict in an output of the hook."""
        output = said["hookSpecificOutput"]
        if output["hookEventName"] != event:
            return None
        if event == PERMISSION_REQUEST:
            return output["decision"]["behavior"]
        return output["permissionDecision"]

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
        if _is_ours(group, mark):
            continue
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list) or not any(_is_ours(hook, mark) for hook in hooks):
            kept.append(group)
        elif others := [hook for hook in hooks if not _is_ours(hook, mark)]:
            kept.append({**group, "hooks": others})
    return kept


def _is_ours(hook: object, mark: str) -> bool:
    return isinstance(hook, dict) and isinstance(hook.get("command"), str) and mark in hook["command"]


def read_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object that a host sent; raise UnreadableCall."""
    try:
        sent = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableCall("The hook's input is not valid JSON.") from error
    if not isinstance(sent, dict):
        raise UnreadableCall("The hook's input is not a JSON object.")
    return sent


def get_text(values: Mapping[str, Any], name: str) -> str:
    """Return a text member, or an empty text."""
    value = values.get(name)
    return value if isinstance(value, str) else ""


def get_dict(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object member, or an empty object."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def _get_list(values: object, name: str) -> list[Any]:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, list) else []


def _get_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
