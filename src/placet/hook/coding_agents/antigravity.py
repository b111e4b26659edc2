"""Antigravity: the JSON of its PreToolUse hook, and its hooks.json. Built from descriptions of CLI 1.1."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from placet.hook.coding_agents.command_hooks import HookHost, get_dict
from placet.hook.coding_agents.host_calls import PROBE_TOOL, HookEntry, HostCall, HostDecision, HostSettings

PRE_TOOL_USE = "PreToolUse"
GROUP = "placet-gate"
"""The name of our hooks in hooks.json, where each name has its own events."""


class Antigravity(HookHost):
    """Antigravity and its CLI `agy`, through a command hook for PreToolUse.

    Antigravity checks an answer against a strict schema, and takes no changed arguments.
    """

    name = "antigravity"
    title = "Antigravity"
    events = (PRE_TOOL_USE,)
    session_member = "conversationId"
    folder_members = ("Cwd",)
    roots_member = "workspacePaths"
    shell = "run_command"
    command_member = "CommandLine"
    path_members = ("TargetFile", "AbsolutePath", "DirectoryPath", "SearchPath", "SearchDirectory")
    file_tools = frozenset(("view_file", "write_to_file", "replace_file_content"))
    search_tools: Mapping[str, str] = {"list_dir": "", "grep_search": "Includes", "find_by_name": "Pattern"}
    next_step = "Start agy and enter /hooks: it lists placet-gate."

    def find_tool(self, event: str, sent: Mapping[str, Any]) -> tuple[object, object]:
        """Return the tool and its arguments. The input does not name its event."""
        call = get_dict(sent, "toolCall") if "stepIdx" in sent else {}
        return call.get("name"), call.get("args", {})

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision."""
        if decision is None:
            return ""
        reason = decision.message
        if decision.verdict == "allow":
            if decision.arguments is None:
                return json.dumps({"decision": "allow"})
            reason = "Antigravity cannot take a changed call."
        return json.dumps({"decision": "deny", "reason": reason})

    def find_verdict(self, event: str, said: Any) -> object:
        """Return the verdict in an output of the hook."""
        return said["decision"]

    def build_probe(self, event: str, folder: str) -> dict[str, Any]:
        """Return what the host would send to the hook about a call of PROBE_TOOL."""
        tool = {"name": PROBE_TOOL, "args": {"Purpose": "placet gate doctor"}}
        return {"conversationId": "probe", "workspacePaths": [folder], "stepIdx": 0, "toolCall": tool}

    # Settings

    def has_known_form(self, settings: HostSettings) -> bool:
        """Return whether a group of hooks can be added to these settings."""
        return all(isinstance(group, dict) for group in settings.values())

    def add_hooks(self, settings: HostSettings, commands: Mapping[str, str], timeout_s: int) -> HostSettings:
        """Return the settings with our group of hooks, after those of others."""
        ours = super().add_hooks({}, commands, timeout_s)["hooks"]
        return {**self.remove_hooks(settings), GROUP: ours}

    def remove_hooks(self, settings: HostSettings) -> HostSettings:
        """Return the settings without our group of hooks."""
        return {name: group for name, group in settings.items() if name != GROUP}

    def find_hooks(self, settings: HostSettings) -> list[HookEntry]:
        """Return our hooks in the settings."""
        return super().find_hooks({"hooks": get_dict(settings, GROUP)})

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what in the settings keeps our hooks from running."""
        is_off = get_dict(settings, GROUP).get("enabled") is False
        return [f"{GROUP}.enabled is false: the hook does not run. Remove it."] if is_off else []

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the user's hooks.json."""
        return home / ".gemini" / "config" / "hooks.json"


CODING_AGENT = Antigravity()
