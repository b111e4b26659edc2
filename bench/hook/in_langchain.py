"""LangChain's agent with its own approval, and with ours."""

import sqlite3
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from bench.hook.ours import hook, saver
from bench.hook.scene import GO, LAST_WORDS, TOOL, WITH_PLACET, Contestant, Setting, pay
from bench.hook.store import make_durable
from placet.hook.frameworks.langchain import ApprovalMiddleware, interruption_of, resume

NAME = "LangChain"


class Model(BaseChatModel):
    """Asks for the calls, then says its last words."""

    setting: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **named: Any) -> "Model":
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **named: Any) -> ChatResult:
        reply = AIMessage(LAST_WORDS)
        if not isinstance(messages[-1], ToolMessage):
            calls = [{"id": id, "name": TOOL, "args": dict(given)} for id, given in self.setting.arguments()]
            reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def own(setting: Setting) -> Iterator[Contestant]:
    """HumanInTheLoopMiddleware; every call of a turn in one interruption, which is its default."""
    agent = _agent(setting, HumanInTheLoopMiddleware(interrupt_on={TOOL: True}), "own")

    def cycle() -> str:
        place = _place()
        stopped = agent.invoke({"messages": [("user", GO)]}, place, durability="sync")
        asked = stopped["__interrupt__"][0].value["action_requests"]
        decisions = {"decisions": [{"type": "approve"} for _ in asked]}
        return agent.invoke(Command(resume=decisions), place, durability="sync")["messages"][-1].text

    yield Contestant(NAME, cycle)


def adapted(setting: Setting) -> Iterator[Contestant]:
    """Our middleware in its place."""
    approval = ApprovalMiddleware(hook(), saver=saver(setting, NAME), parallel=[TOOL])
    agent = _agent(setting, approval, "adapted")

    def cycle() -> str:
        place = _place()
        stopped = interruption_of(agent.invoke({"messages": [("user", GO)]}, place, durability="sync"))
        assert stopped is not None
        thread_id = place["configurable"]["thread_id"]
        return resume(agent, thread_id, stopped.approve_all(), durability="sync")["messages"][-1].text

    yield Contestant(f"{NAME}{WITH_PLACET}", cycle)


def _agent(setting: Setting, middleware: AgentMiddleware[Any, Any, Any], name: str) -> Any:
    model = Model(setting=setting)
    return create_agent(
        model, [pay], middleware=[middleware], checkpointer=_checkpointer(setting, f"langchain-{name}")
    )


def _checkpointer(setting: Setting, name: str) -> BaseCheckpointSaver[Any]:
    if setting.folder is None:
        return InMemorySaver()
    made = SqliteSaver(sqlite3.connect(setting.file(name), check_same_thread=False))
    setting.cleanup.callback(made.conn.close)
    made.setup()
    make_durable(made.conn)
    return made


def _place() -> Any:
    return {"configurable": {"thread_id": uuid4().hex}}
