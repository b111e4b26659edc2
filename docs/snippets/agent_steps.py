"""Hooks around an agent's steps, and interceptors around its tool calls."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from placet.hook import AgentSteps, HumanInTheLoopHook, MemorySaver, ReactAgent, ToolCall, tool

logger = logging.getLogger(__name__)


class LastMessagesOnly(AgentSteps):
    def before_model(self, messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        return messages[-20:]


def log_call(call: ToolCall, run: Callable[[], Any]) -> Any:
    logger.info("tool_called tool=%s", call.name)
    return run()


def retry_once(call: ToolCall, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except ConnectionError:
        return run()


attempts: list[str] = []


@tool(repeatable=True)
def send(to: str) -> str:
    """Send a message."""
    attempts.append(to)
    if len(attempts) == 1:
        raise ConnectionError("try again")
    return "sent"


def model(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if messages[-1]["role"] == "tool":
        return {"content": messages[-1]["content"]}
    return {"tool_calls": [{"id": "a", "name": "send", "arguments": {"to": "Ann"}}]}


agent = ReactAgent(
    "clerk",
    model,
    [send],
    hooks=[HumanInTheLoopHook({"send": "Messages need approval"}), LastMessagesOnly()],
    interceptors=[log_call, retry_once],
    saver=MemorySaver(),
)

outcome: Any = agent.invoke("Tell Ann.", thread_id="t")
assert attempts == []
outcome = agent.resume("t", outcome.approve_all())
assert outcome.text == "sent"
assert attempts == ["Ann", "Ann"]
