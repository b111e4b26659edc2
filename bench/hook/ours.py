"""Our own loop, and what our adapters share."""

from typing import Any

from bench.hook.scene import GO, LAST_WORDS, TOOL, Contestant, Setting, pay
from placet.hook import (
    AgentResult,
    HumanInTheLoopHook,
    InterruptionMetadata,
    MemorySaver,
    ReactAgent,
    Saver,
    tool,
)
from placet.hook.savers.sqlite import SqliteSaver

NAME = "Placet"


def saver(setting: Setting, name: str) -> Saver:
    """Where the setting keeps threads."""
    made = MemorySaver() if setting.folder is None else SqliteSaver(setting.file(f"{name}-placet"))
    setting.cleanup.callback(made.close)
    return made


def hook() -> HumanInTheLoopHook:
    """Every call waits."""
    return HumanInTheLoopHook({TOOL: True})


def agent(setting: Setting) -> Contestant:
    """ReactAgent. As in the frameworks, the calls of a turn may run at the same time."""
    calls = setting.arguments()

    def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "tool":
            return {"content": LAST_WORDS}
        return {"tool_calls": [{"id": id, "name": TOOL, "arguments": dict(given)} for id, given in calls]}

    made = ReactAgent(
        "payer", model, [tool(parallel=True)(pay)], hooks=[hook()], saver=saver(setting, "agent")
    )

    def cycle() -> str:
        stopped = made.invoke(GO)
        assert isinstance(stopped, InterruptionMetadata)
        ended = made.resume(stopped.thread_id, stopped.approve_all())
        assert isinstance(ended, AgentResult)
        return ended.text

    return Contestant(NAME, cycle)
