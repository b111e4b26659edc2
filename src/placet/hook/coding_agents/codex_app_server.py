"""Codex's app server, between an editor and Codex. Checked on version 0.169.0."""

from collections.abc import Mapping
from typing import Any

from placet.hook.coding_agents.command_hooks import get_dict, get_text
from placet.hook.coding_agents.file_arguments import list_paths, resolve_path
from placet.hook.coding_agents.host_calls import HostCall
from placet.hook.coding_agents.proxied_agents import Message, ProxiedAgent, SessionFacts, read_objects

RUN, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
_OPENING = frozenset(("thread/start", "thread/resume", "thread/fork"))


class CodexAppServer(ProxiedAgent):
    """Codex asks whether it may run a command or change files."""

    name = "codex-app-server"
    title = "Codex"
    events = (RUN, CHANGE)
    prompting_events = events

    def find_session(self, params: Mapping[str, Any]) -> str:
        """Return the thread of a request."""
        return get_text(params, "threadId")

    def find_item(self, params: Mapping[str, Any]) -> str:
        """Return the item that an approval is asked for."""
        return get_text(params, "itemId")

    def observe(self, message: Message, request: Message | None, facts: SessionFacts) -> None:
        """Remember the folder of each thread, and the changes of each item."""
        result = get_dict(message, "result")
        if request is not None and request.get("method") in _OPENING:
            thread = get_text(get_dict(result, "thread"), "id")
            facts.folders[thread] = get_text(result, "cwd")
        item = get_dict(get_dict(message, "params"), "item")
        if message.get("method") == "item/started" and get_text(item, "id"):
            facts.learn_item(item["id"], item)

    def build_call(self, event: str, params: dict[str, Any], sent: Mapping[str, Any]) -> HostCall:
        """Return the call that a request is about."""
        folder = resolve_path(get_text(params, "cwd"), get_text(sent, "folder"))
        item = get_dict(sent, "item")
        command = get_text(params, "command") or get_text(item, "command")
        changes = read_objects(item, "changes")
        named = [get_text(one, "path") for one in changes]
        shown: dict[str, Any] = {"command": command} if event == RUN else {"changes": changes}
        if event == CHANGE:
            shown["grantRoot"] = params.get("grantRoot")
        for name in ("reason", "networkApprovalContext", "kind"):
            shown[name] = params.get(name)
        return HostCall(
            host=self.title,
            event=event,
            tool="Bash" if event == RUN else "apply_patch",
            arguments={name: value for name, value in shown.items() if value},
            session=get_text(sent, "session"),
            folder=folder,
            command=command if event == RUN and command else None,
            paths=list_paths(*filter(None, named), folder=folder),
            diff="\n".join(_format_change(one) for one in changes),
            is_prompted=True,
        )

    def build_cancellation(self, message: Message) -> Message | None:
        """Return None: Codex itself tells the editor that a request was answered."""
        return None

    def build_answer(self, message: Message, *, is_allowed: bool) -> dict[str, Any] | None:
        """Return a decision for this item alone."""
        return {"decision": "accept" if is_allowed else "decline"}


def _format_change(change: Mapping[str, Any]) -> str:
    """Return the diff of one file, with the names of the file before it."""
    path, diff = get_text(change, "path"), get_text(change, "diff")
    kind = get_text(get_dict(change, "kind"), "type")
    if kind in ("add", "delete") and not diff.startswith("@@"):
        sign = "+" if kind == "add" else "-"
        lines = diff.splitlines()
        numbers = f"-0,0 +1,{len(lines)}" if kind == "add" else f"-1,{len(lines)} +0,0"
        diff = "\n".join([f"@@ {numbers} @@", *(sign + line for line in lines)])
    return f"--- {path}\n+++ {path}\n{diff}"


CODING_AGENT = CodexAppServer()
