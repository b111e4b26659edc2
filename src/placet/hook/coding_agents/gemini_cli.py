"""Gemini CLI: the JSON of its BeforeTool hook, and its settings file. Checked on version 0.61.0.

An approval does not skip the question of Gemini CLI itself; only a denial has an effect of its own.
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, ClassVar

from placet.hook.coding_agents.command_hooks import HookHost, get_dict
from placet.hook.coding_agents.host_calls import HostCall, HostDecision, HostSettings

BEFORE_TOOL = "BeforeTool"


class GeminiCli(HookHost):
    """Gemini CLI, through a command hook for BeforeTool."""

    name = "gemini-cli"
    title = "Gemini CLI"
    allows_comments = True
    events = (BEFORE_TOOL,)
    timeout_unit_s: ClassVar[float] = 0.001
    shell = "run_shell_command"
    shell_members = frozenset(
        ("command", "description", "dir_path", "is_background", "delay_ms", "wait_for_previous")
    )
    folder_members = ("dir_path",)
    path_members = ("file_path", "absolute_path", "dir_path", "path")
    file_tools = frozenset(("read_file", "write_file", "replace"))
    search_tools: Mapping[str, str] = {
        "glob": "pattern",
        "grep_search": "include_pattern",
        "search_file_content": "include",
        "list_directory": "",
    }
    editable: Mapping[str, Any] | None = {
        "type": "object",
        "required": ["command"],
        "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    }

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision. Changed arguments are merged into those of the call."""
        if decision is None:
            return ""
        if decision.verdict == "deny":
            return json.dumps({"decision": "deny", "reason": decision.message})
        said: dict[str, Any] = {"decision": "allow"}
        if decision.arguments is not None:
            said["hookSpecificOutput"] = {"hookEventName": event, "tool_input": decision.arguments}
        return json.dumps(said)

    def find_verdict(self, event: str, said: Any) -> object:
        """Return the verdict in an output of the hook."""
        return said["decision"]

    # Settings

    def build_entry(self, command: str, timeout_s: int) -> dict[str, Any]:
        """Return one entry below an event. It has a name, by which `/hooks` lists it."""
        (hook,) = super().build_entry(command, timeout_s)["hooks"]
        return {"matcher": ".*", "hooks": [{"name": "placet-gate", **hook}]}

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the user's settings.json, in GEMINI_CLI_HOME or the home folder."""
        folder = environ.get("GEMINI_CLI_HOME")
        return (PurePosixPath(folder) if folder else home) / ".gemini" / "settings.json"

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what in the settings keeps our hooks from running."""
        configured = get_dict(settings, "hooksConfig")
        disabled = configured.get("disabled")
        problems = []
        if configured.get("enabled") is False:
            problems.append("hooksConfig.enabled is false: no hook runs. Remove it.")
        if isinstance(disabled, list) and "placet-gate" in disabled:
            problems.append("hooksConfig.disabled names placet-gate. Run /hooks enable placet-gate.")
        return problems


CODING_AGENT = GeminiCli()
