"""Cursor: the JSON of its preToolUse hook, and its hooks.json. Built from public descriptions of 3.9."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from placet.hook.coding_agents.command_hooks import HookHost
from placet.hook.coding_agents.host_calls import (
    HookEntry,
    HostCall,
    HostDecision,
    HostSettings,
)

PRE_TOOL_USE = "preToolUse"


class Cursor(HookHost):
    """Cursor, through a hook for preToolUse that fails closed.

    Cursor takes no output for a failure, so it cannot be told to go on as usual: without a rule, a person is
    asked.
    """

    name = "cursor"
    title = "Cursor"
    events = (PRE_TOOL_USE,)
    prompting_events = (PRE_TOOL_USE,)
    session_member = "conversation_id"
    folder_members = ("cwd", "working_directory")
    roots_member = "workspace_roots"
    shell = "Shell"
    path_members = ("file_path", "path", "target_file")
    file_tools = frozenset(("Read", "Write", "Edit", "Delete"))
    editable: Mapping[str, Any] | None = {
        "type": "object",
        "required": ["command"],
        "properties": {
            "command": {"type": "string"},
            "cwd": {"type": "string"},
            "timeout": {"type": "number"},
        },
    }
    next_step = "Restart Cursor. Settings > Hooks lists the hook."

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision. The model reads the `user_message` of a denial."""
        if decision is None:
            return ""
        if decision.verdict == "deny":
            message = decision.message
            return json.dumps({"permission": "deny", "user_message": message, "agent_message": message})
        said: dict[str, Any] = {"permission": "allow"}
        if decision.arguments is not None:
            said["updated_input"] = decision.arguments
        return json.dumps(said)

    def find_verdict(self, event: str, said: Any) -> object:
        """Return the verdict in an output of the hook."""
        return said["permission"]

    def build_probe(self, event: str, folder: str) -> dict[str, Any]:
        """Return what the host would send to the hook about a call of PROBE_TOOL."""
        return {**super().build_probe(event, folder), "conversation_id": "probe", "workspace_roots": [folder]}

    # Settings

    def build_entry(self, command: str, timeout_s: int) -> dict[str, Any]:
        """Return one entry below an event. Without `failClosed`, a failed hook lets the call run."""
        return {"type": "command", "command": command, "timeout": timeout_s, "failClosed": True}

    def add_hooks(self, settings: HostSettings, commands: Mapping[str, str], timeout_s: int) -> HostSettings:
        """Return the settings with our hook, and with the version that Cursor requires."""
        return {"version": 1, **super().add_hooks(settings, commands, timeout_s)}

    def read_entry(self, event: str, hook: Mapping[str, Any]) -> HookEntry:
        """Return one hook of ours."""
        entry = super().read_entry(event, hook)
        return replace(entry, fails_open=hook.get("failClosed") is not True)

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the user's hooks.json."""
        return home / ".cursor" / "hooks.json"


CODING_AGENT = Cursor()
