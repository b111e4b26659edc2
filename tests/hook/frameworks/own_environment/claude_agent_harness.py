"""The Claude Agent SDK with a scripted Claude Code, which speaks the SDK's control protocol.

To start the real one takes a second of CPU time, too long for a kill at every step.
`test_claude_agent_sdk` runs the real one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

from claude_agent_sdk import ClaudeAgentOptions, Transport, query

from placet.hook import ToolCall
from placet.hook.frameworks.claude_agent_sdk import ClaudeAgentApproval
from tests.hook.frameworks.own_environment.repeated_runs import RepeatedRunHarness, RunRecorder

RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "duration_ms": 0,
    "duration_api_ms": 0,
    "num_turns": 1,
    "session_id": "s",
}


class RecordingApproval(RunRecorder, ClaudeAgentApproval):
    """The adapter."""


class ScriptedClaudeCode(Transport):  # type: ignore[misc,unused-ignore]
    """Makes the calls of each turn at once, each with its hooks and its request for permission."""

    def __init__(self, harness: "ClaudeAgentHarness", approval: Any) -> None:
        self.harness, self.approval = harness, approval
        self.functions = {function.__name__: function for function in harness.tools}
        self.sent: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.hooks: dict[str, Any] = {}
        self.results: dict[str, str] = {}
        self.work: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        return

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        return

    async def close(self) -> None:
        if self.work is not None:
            await self.work

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self.sent.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        for message in map(json.loads, data.splitlines()):
            if message["type"] == "control_request":
                self.hooks = message["request"]["hooks"]
                said = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                self.sent.put_nowait({"type": "control_response", "response": said})
            elif message["type"] == "control_response":
                said = message["response"]
                self.answers.pop(said["request_id"]).set_result(said)
            else:
                self.work = asyncio.create_task(self.run())

    async def run(self) -> None:
        """Make the calls; end when one of them waits."""
        try:
            for turn in self.harness.scene.turns:
                await asyncio.gather(*map(self.make, turn))
                if self.approval.errors:
                    break
        finally:
            self.sent.put_nowait(RESULT)
            self.sent.put_nowait(None)

    async def make(self, call: ToolCall) -> None:
        """Make a call as Claude Code does: hooks, permission if a hook asks for it, tool, hooks."""
        before = await self.run_hooks("PreToolUse", call, call.arguments)
        arguments = call.arguments
        if before.get("permissionDecision") == "deny":
            self.results[call.id] = before["permissionDecisionReason"]
            return
        if before.get("permissionDecision") == "ask":
            asked = {"tool_name": call.name, "input": arguments, "tool_use_id": call.id}
            permission = await self.request(subtype="can_use_tool", **asked)
            if permission["behavior"] != "allow":
                self.results[call.id] = permission["message"]
                return
            arguments = permission["updatedInput"]
        text = await asyncio.to_thread(self.functions[call.name], **arguments)
        after = await self.run_hooks("PostToolUse", call, arguments, tool_response=text)
        self.results[call.id] = "\n".join(filter(None, [after.get("additionalContext"), text]))

    async def run_hooks(self, event: str, call: ToolCall, arguments: Any, **more: Any) -> dict[str, Any]:
        [matcher] = self.hooks[event]
        [callback_id] = matcher["hookCallbackIds"]
        sent = {"hook_event_name": event, "tool_name": call.name, "tool_input": arguments, **more}
        said = await self.request(
            subtype="hook_callback",
            callback_id=callback_id,
            tool_use_id=call.id,
            input={**sent, "tool_use_id": call.id},
        )
        return dict(said.get("hookSpecificOutput") or {})

    async def request(self, **fields: Any) -> dict[str, Any]:
        """Send a request to the SDK; return its answer. Claude Code takes an error for a denial."""
        request_id = uuid4().hex
        self.answers[request_id] = answer = asyncio.get_running_loop().create_future()
        self.sent.put_nowait({"type": "control_request", "request_id": request_id, "request": fields})
        said = await answer
        return dict(said.get("response") or {"behavior": "deny", "message": said.get("error")})


class ClaudeAgentHarness(RepeatedRunHarness):
    """One query of the SDK; a subagent's calls come to the same hooks as Claude's own."""

    adapter = RecordingApproval
    knows_schemas = False

    def run_agent(self, approval: Any) -> Mapping[str, str]:
        return asyncio.run(self.query(approval))

    async def query(self, approval: Any) -> Mapping[str, str]:
        claude = ScriptedClaudeCode(self, approval)
        options = approval.gate(ClaudeAgentOptions())
        async for _ in query(prompt=send_prompt(), options=options, transport=claude):
            pass
        return claude.results


async def send_prompt() -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": "go"}}
