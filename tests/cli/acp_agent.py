"""A coding agent built with the protocol's own library: a prompt says what it asks its editor for."""

import asyncio
import json
import shlex
import subprocess
import sys
from typing import Any

import acp
from acp import schema

OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    schema.PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


class ScriptedAgent:
    """Does what its prompt says, as JSON: {"run": COMMAND}, {"edit": PATH} or {"send": any line}."""

    def on_connect(self, conn: Any) -> None:
        self.editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        info = schema.Implementation(name="scripted", title="Scripted agent", version="1")
        return acp.InitializeResponse(protocol_version=protocol_version, agent_info=info)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        self.cwd = cwd
        return acp.NewSessionResponse(session_id="session-1")

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:
        order = json.loads(prompt[0].text)
        if "send" in order:
            sys.stdout.write(order["send"] + "\n")
            sys.stdout.flush()
        elif "exit" in order:
            asyncio.get_running_loop().call_soon(sys.exit, order["exit"])
        else:
            call = (
                self._run(order["run"]) if "run" in order else self._edit(order["edit"], order.get("size", 1))
            )
            await self._ask(session_id, call, order)
        return acp.PromptResponse(stop_reason="end_turn")

    async def _ask(self, session_id: str, call: schema.ToolCallUpdate, order: dict[str, Any]) -> None:
        options = [one for one in OPTIONS if one.kind in order.get("options", [one.kind])]
        try:
            answered = await self.editor.request_permission(
                session_id=session_id, tool_call=call, options=options
            )
            said = answered.outcome.model_dump(by_alias=True, exclude_none=True)
        except acp.RequestError as error:
            said = {"error": str(error)}
        if said.get("optionId") == "yes" and "run" in order:
            await asyncio.to_thread(subprocess.run, shlex.split(order["run"]), cwd=self.cwd, check=True)
        text = acp.text_block(json.dumps(said))
        await self.editor.session_update(session_id=session_id, update=acp.update_agent_message(text))

    def _run(self, command: str) -> schema.ToolCallUpdate:
        return schema.ToolCallUpdate(
            tool_call_id="call_1", title="Run it", kind="execute", raw_input={"command": command}
        )

    def _edit(self, edit: str, size: int = 1) -> schema.ToolCallUpdate:
        change = acp.tool_diff_content(edit, "new\n", "old\n")
        return schema.ToolCallUpdate(tool_call_id="call_2", title="x" * size, kind="edit", content=[change])


if __name__ == "__main__":
    asyncio.run(acp.run_agent(ScriptedAgent()))  # type: ignore[arg-type]
