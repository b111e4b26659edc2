"""Our own loop, and what our adapters share."""

from collections.abc import Callable
from typing import Any

from bench.hook.scene import GO, LAST_WORDS, TOOL, Contestant, Setting, apay, pay
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
AWAITED_NAME = f"{NAME}, awaited"


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
    made = _build_agent(setting, "agent", pay)

    def cycle() -> str:
        stopped = made.invoke(GO)
        assert isinstance(stopped, InterruptionMetadata)
        ended = made.resume(stopped.thread_id, stopped.approve_all())
        assert isinstance(ended, AgentResult)
        return ended.text

    return Contestant(NAME, cycle)


def awaited_agent(setting: Setting) -> Contestant:
    """The same on an event loop, with a tool that is awaited."""
    made, loop = _build_agent(setting, "awaited", apay), setting.loop()

    async def run() -> str:
        stopped = await made.ainvoke(GO)
        assert isinstance(stopped, InterruptionMetadata)
        ended = await made.aresume(stopped.thread_id, stopped.approve_all())
        assert isinstance(ended, AgentResult)
        return ended.text

    return Contestant(AWAITED_NAME, lambda: loop.run_until_complete(run()))


def _build_agent(setting: Setting, name: str, function: Callable[..., Any]) -> ReactAgent:
    calls = setting.arguments()

    def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "tool":
            return {"content": LAST_WORDS}
        return {"tool_calls": [{"id": id, "name": TOOL, "arguments": dict(given)} for id, given in calls]}

    payer = tool(parallel=True, name=TOOL)(function)
    return ReactAgent("payer", model, [payer], hooks=[hook()], saver=saver(setting, name))
