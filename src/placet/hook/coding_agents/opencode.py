"""OpenCode: a plugin that runs our hooks, and the JSON between the two. Checked on version 1.18.33.

OpenCode has no command hooks. `placet gate install` writes the plugin, which holds the commands.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from placet.hook.coding_agents.command_hooks import HookHost, get_dict, get_text
from placet.hook.coding_agents.host_calls import PROBE_TOOL, HookEntry, HostCall, HostDecision, HostSettings

BEFORE_TOOL, PERMISSION_ASKED = "tool.execute.before", "permission.asked"
TOOL_PERMISSIONS = frozenset(
    ("bash", "edit", "read", "glob", "grep", "list", "webfetch", "websearch", "task")
)
"""Permissions that ask about the call itself. Others, such as `external_directory`, count as tools."""
_PLUGIN = Path(__file__).with_name("opencode_plugin.js")
_HOOKS = re.compile(r"^const HOOKS = (\{.*\})$", re.MULTILINE)
_BASH = {
    "type": "object",
    "required": ["command"],
    "properties": {
        "command": {"type": "string"},
        "description": {"type": "string"},
        "workdir": {"type": "string"},
        "timeout": {"type": "number"},
    },
}


class OpenCode(HookHost):
    """OpenCode, through a plugin: before each call for policy, and when it asks for a permission."""

    name = "opencode"
    title = "OpenCode"
    events = (BEFORE_TOOL, PERMISSION_ASKED)
    prompting_events = (PERMISSION_ASKED,)
    session_member = "session"
    shell = "bash"
    shell_members = frozenset(("command", "description", "timeout", "workdir"))
    folder_members = ("workdir",)
    path_members = ("filePath", "path")
    file_tools = frozenset(("read", "write", "edit"))
    search_tools: Mapping[str, str] = {"glob": "pattern", "grep": "include", "list": ""}
    patch_tools: Mapping[str, str] = {"apply_patch": "patchText"}
    editable: Mapping[str, Any] | None = _BASH
    next_step = "Restart opencode, so that it loads the plugin."

    def find_tool(self, event: str, sent: Mapping[str, Any]) -> tuple[object, object]:
        """Return the tool and its arguments, or the permission with what it is for."""
        if sent.get("event") != event:
            return None, None
        call, asked = get_dict(sent, "call"), get_dict(sent, "permission")
        name = asked.get("permission")
        if event == BEFORE_TOOL or (call and name in TOOL_PERMISSIONS):
            return call.get("tool"), call.get("arguments")
        patterns, about = asked.get("patterns"), get_dict(asked, "metadata")
        arguments: dict[str, Any] = {"patterns": patterns, **about}
        if call:
            arguments["call"] = {"tool": call.get("tool"), "arguments": call.get("arguments")}
        return name, arguments

    def build_call(
        self, event: str, tool: str, arguments: dict[str, Any], sent: Mapping[str, Any]
    ) -> HostCall:
        """Return the call with these parts of the hook's input."""
        call = super().build_call(event, tool, arguments, {**sent, "cwd": sent.get("folder")})
        return replace(call, call_id=get_text(get_dict(sent, "call"), "id"))

    def add_details(self, call: HostCall) -> HostCall:
        """Return the call with its details. A permission that is asked for takes no changed arguments."""
        detailed = super().add_details(call)
        return detailed if call.event == BEFORE_TOOL else replace(detailed, editable=None)

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return the JSON of a decision. The plugin takes no output for a failure."""
        said: dict[str, Any] = {"event": event, "verdict": "none"}
        if decision is not None:
            said |= {"verdict": decision.verdict, "message": decision.message}
            if decision.verdict == "allow" and decision.arguments is not None:
                said["arguments"] = decision.arguments
        return json.dumps(said)

    def find_verdict(self, event: str, said: Any) -> object:
        """Return the verdict in an output of the hook."""
        return said["verdict"] if said["event"] == event else None

    def build_probe(self, event: str, folder: str) -> dict[str, Any]:
        """Return what the plugin would send to the hook about a call of PROBE_TOOL."""
        call = {"id": "probe", "tool": PROBE_TOOL, "arguments": {"purpose": "placet gate doctor"}}
        asked = {"id": "probe", "permission": PROBE_TOOL, "patterns": ["*"], "metadata": {}}
        return {"event": event, "session": "probe", "folder": folder, "call": call, "permission": asked}

    # The plugin

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the file of the plugin, in XDG_CONFIG_HOME or ~/.config."""
        folder = environ.get("XDG_CONFIG_HOME")
        config = PurePosixPath(folder) if folder else home / ".config"
        return config / "opencode" / "plugins" / "placet-gate.js"

    def parse_settings(self, text: str) -> HostSettings:
        """Return the hooks in the plugin; raise ValueError if it is not ours."""
        if not text.strip():
            return {}
        found = _HOOKS.search(text)
        if found is None or "placet gate install opencode" not in text:
            raise ValueError("it is not the plugin of Placet")
        hooks: HostSettings = json.loads(found[1])
        return {"hooks": hooks, "is_current": text == self.format_settings({"hooks": hooks}, "")}

    def format_settings(self, settings: HostSettings, before: str) -> str | None:
        """Return the plugin with these hooks, or None without any."""
        hooks = settings.get("hooks")
        if not hooks:
            return None
        line = f"const HOOKS = {json.dumps(hooks)}"
        return _PLUGIN.read_text("utf-8").replace("const HOOKS = {}", line, 1)

    def add_hooks(self, settings: HostSettings, commands: Mapping[str, str], timeout_s: int) -> HostSettings:
        """Return the hooks of the plugin: one command for each event."""
        return {
            "hooks": {
                event: {"command": command, "timeout": timeout_s} for event, command in commands.items()
            },
            "is_current": True,
        }

    def remove_hooks(self, settings: HostSettings) -> HostSettings:
        """Return no hooks."""
        return {}

    def find_hooks(self, settings: HostSettings) -> list[HookEntry]:
        """Return the hooks in the plugin."""
        return [self.read_entry(event, hook) for event, hook in get_dict(settings, "hooks").items()]

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what keeps the plugin from working."""
        if settings and not settings.get("is_current"):
            return ["The plugin is not as this version writes it. Run install again."]
        return []


CODING_AGENT = OpenCode()
