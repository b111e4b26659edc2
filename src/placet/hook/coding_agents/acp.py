"""The Agent Client Protocol, between an editor and any agent that speaks it. Version 1 of the protocol."""

import shlex
from collections.abc import Mapping
from typing import Any

from placet.hook.coding_agents.command_hooks import get_dict, get_text
from placet.hook.coding_agents.file_arguments import list_paths, list_texts, resolve_path
from placet.hook.coding_agents.host_calls import FileChange, HostCall, UnreadableCall
from placet.hook.coding_agents.proxied_agents import (
    Message,
    ProxiedAgent,
    SessionFacts,
    find_text,
    read_objects,
    read_texts,
)

ASK, RUN, WRITE, READ = (
    "session/request_permission",
    "terminal/create",
    "fs/write_text_file",
    "fs/read_text_file",
)
_OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
_SHELL_MEMBERS = frozenset(("command", "description", "timeout", "cwd", "workdir"))
_PATH_MEMBERS = ("file_path", "filePath", "path", "notebook_path")


class AgentClientProtocol(ProxiedAgent):
    """The agent asks for a permission, or has the editor run a command and read or write a file."""

    name = "acp"
    title = "The agent"
    events = (ASK, RUN, WRITE, READ)
    prompting_events = (ASK,)

    def find_session(self, params: Mapping[str, Any]) -> str:
        """Return the session of a request."""
        return get_text(params, "sessionId")

    def find_item(self, params: Mapping[str, Any]) -> str:
        """Return the id of the tool call that a permission is asked for."""
        return get_text(get_dict(params, "toolCall"), "toolCallId")

    def observe(self, message: Message, request: Message | None, facts: SessionFacts) -> None:
        """Remember the agent's name, the folder of each session, and what was said about a tool call."""
        params, result = get_dict(message, "params"), get_dict(message, "result")
        if request is not None and request.get("method") == "initialize":
            facts.agent.update(get_dict(result, "agentInfo"))
        if request is not None and request.get("method") in _OPENING:
            asked = get_dict(request, "params")
            session = get_text(result, "sessionId") or get_text(asked, "sessionId")
            facts.folders[session] = get_text(asked, "cwd")
        update = get_dict(params, "update")
        if message.get("method") == "session/update" and get_text(update, "toolCallId"):
            facts.learn_item(update["toolCallId"], update)

    def build_call(self, event: str, params: dict[str, Any], sent: Mapping[str, Any]) -> HostCall:
        """Return the call that a request is about."""
        folder = get_text(sent, "folder")
        changes: tuple[FileChange, ...] = ()
        texts: list[str] = []
        is_clear = True
        if event == ASK:
            asked = get_dict(params, "toolCall")
            known = {name: value for name, value in asked.items() if value is not None}
            call = {**get_dict(sent, "item"), **known}
            tool, arguments, command, paths, changes = _read_tool_call(call)
            raw = get_dict(call, "rawInput")
            if command is None:
                texts = list(list_texts(raw))
            else:
                folder = resolve_path(find_text(raw, "cwd", "workdir"), folder)
                is_clear = not {name for name, value in raw.items() if value} - _SHELL_MEMBERS
        elif event == RUN:
            words = [get_text(params, "command"), *read_texts(params, "args")]
            if not words[0] or len(words) != 1 + len(params.get("args") or ()):
                raise UnreadableCall("The agent does not name a command and its arguments.")
            tool, command = RUN, words[0] if len(words) == 1 else shlex.join(words)
            arguments, paths = {**params, "command": command}, []
            # Editors differ: some quote the words for a shell, some do not.
            is_clear = not params.get("env") and all(shlex.quote(word) == word for word in words[1:])
            folder = resolve_path(get_text(params, "cwd"), folder)
        elif not get_text(params, "path"):
            raise UnreadableCall("The agent does not name a file.")
        else:
            tool, command, arguments, paths = event, None, dict(params), [get_text(params, "path")]
        agent = get_text(sent, "agent")
        return HostCall(
            host=agent or self.title,
            event=event,
            tool=tool,
            arguments={name: value for name, value in arguments.items() if name != "sessionId"},
            session=get_text(sent, "session"),
            folder=folder,
            command=command,
            paths=list_paths(*filter(None, paths), folder=folder),
            texts=list_paths(*texts, folder=folder),
            is_clear=is_clear,
            changes=changes,
            is_prompted=event in self.prompting_events,
        )

    def build_cancellation(self, message: Message) -> Message | None:
        """Return the notification that closes the editor's dialog."""
        return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": message["id"]}}

    def build_answer(self, message: Message, *, is_allowed: bool) -> dict[str, Any] | None:
        """Return the option that allows or rejects this call once."""
        wanted = ("allow_once",) if is_allowed else ("reject_once", "reject_always")
        options = read_objects(get_dict(message, "params"), "options")
        for kind in wanted:
            for option in options:
                if option.get("kind") == kind and get_text(option, "optionId"):
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return None if is_allowed else {"outcome": {"outcome": "cancelled"}}


def _read_tool_call(
    call: Mapping[str, Any],
) -> tuple[str, dict[str, Any], str | None, list[str], tuple[FileChange, ...]]:
    """Return the tool, its arguments, command, paths and changes. A title is not taken for a command."""
    raw = get_dict(call, "rawInput")
    tool = get_text(call, "kind") or "other"
    command = raw.get("command") if tool == "execute" else None
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        command = shlex.join(command)
    diffs = [one for one in read_objects(call, "content") if one.get("type") == "diff"]
    changes = tuple(
        FileChange(
            path=get_text(one, "path"), before=get_text(one, "oldText"), after=get_text(one, "newText")
        )
        for one in diffs
    )
    named = [get_text(raw, name) for name in _PATH_MEMBERS]
    located = [get_text(one, "path") for one in read_objects(call, "locations")]
    arguments = {"title": get_text(call, "title"), **raw}
    return (
        tool,
        arguments,
        command if isinstance(command, str) else None,
        [*named, *located, *(one.path for one in changes)],
        changes,
    )


CODING_AGENT = AgentClientProtocol()
