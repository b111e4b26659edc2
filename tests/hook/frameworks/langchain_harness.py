"""LangChain's own agent with approval, as the contract drives it: sync and async, on real SQLite files."""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import aiosqlite
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver as GraphFile
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver as AsyncGraphFile
from pydantic import Field

from placet.hook import InterruptionMetadata
from placet.hook.answer_validation import Feedback
from placet.hook.frameworks.langchain import ApprovalMiddleware, aresume, interruption_of, resume
from placet.hook.thread_resumption import AgentThreads
from placet.testing.approvals import LAST_WORDS, Harness, Scene, ask_helper
from placet.testing.steps import LOCK_TIMEOUT, STEPS

GO = {"messages": [{"role": "user", "content": "go"}]}


class ScriptedModel(BaseChatModel):
    """Asks for the calls of its scene, turn by turn."""

    scene: Scene
    saw: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.saw.append(messages)
        said = sum(isinstance(message, AIMessage) for message in messages)
        calls = self.scene.turns[said] if said < len(self.scene.turns) else ()
        reply = AIMessage(
            content="" if calls else LAST_WORDS,
            tool_calls=[{"id": call.id, "name": call.name, "args": call.arguments} for call in calls],
        )
        return ChatResult(generations=[ChatGeneration(message=reply)])


def thread_config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def list_results(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    return [(each.tool_call_id, each.text) for each in messages if isinstance(each, ToolMessage)]


class SteppingGraphFile(GraphFile):
    """Everything that LangGraph stores is a step; on a slow machine it waits longer for its turn."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator["SteppingGraphFile"]:
        limit_s = LOCK_TIMEOUT.total_seconds()
        with closing(sqlite3.connect(conn_string, limit_s, check_same_thread=False)) as connection:
            yield cls(connection)

    def put(self, *args: Any, **named: Any) -> Any:
        STEPS.take()
        return super().put(*args, **named)

    def put_writes(self, *args: Any, **named: Any) -> None:
        STEPS.take()
        super().put_writes(*args, **named)


class LangChainHarness(Harness):
    """`invoke`, `stream` and `resume`."""

    children = "wait"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.model = ScriptedModel(scene=self.scene)
        # Not in the threads of a test: made in two at once, one may see a warning of pydantic's.
        self.made_tools = [tool(each) for each in self.tools]
        self._file = SteppingGraphFile.from_conn_string(str(self.folder / "graph.db"))
        self.agent = self.make_agent(self._file.__enter__())

    def make_agent(self, checkpointer: Any) -> Any:
        self.approval = self.make_approval()
        if not self.scene.by_child:
            return self.create(self.model, self.made_tools, checkpointer)
        child = self.create(self.model, self.made_tools, None)

        @tool
        def helper(task: str) -> str:
            """Help."""
            return str(child.invoke(GO)["messages"][-1].text)

        asking = ScriptedModel(scene=ask_helper(task="clean up"))
        return self.create(asking, [helper, *self.made_tools], checkpointer)

    def make_approval(self) -> ApprovalMiddleware[Any]:
        return ApprovalMiddleware(self.hook, saver=self.saver, reviews=self.reviews, clock=self.clock)

    def create(self, model: BaseChatModel, tools: Sequence[Any], checkpointer: Any) -> Any:
        return create_agent(model, tools, middleware=[self.approval], checkpointer=checkpointer)

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return interruption_of(self.agent.invoke(GO, thread_config(thread_id)))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return interruption_of(resume(self.agent, thread_id, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        chunks = self.agent.stream(GO, thread_config(thread_id), stream_mode="updates")
        return [stopped for chunk in chunks if (stopped := interruption_of(chunk)) is not None]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return list_results(self.agent.get_state(thread_config(thread_id)).values.get("messages", ()))

    def threads(self) -> AgentThreads:
        return self.approval.threads_of(self.agent)

    def close(self) -> None:
        self._file.__exit__(None, None, None)
        super().close()


class AsyncLangChainHarness(LangChainHarness):
    """`ainvoke`, `astream` and `aresume`, each on a loop of its own."""

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return asyncio.run(self._on(lambda agent: agent.ainvoke(GO, thread_config(thread_id))))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return asyncio.run(self._on(lambda agent: aresume(agent, thread_id, feedback)))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        async def last(agent: Any) -> Any:
            chunks = [
                chunk async for chunk in agent.astream(GO, thread_config(thread_id), stream_mode="updates")
            ]
            return chunks[-1]

        stopped = asyncio.run(self._on(last))
        return [] if stopped is None else [stopped]

    async def _on(self, use: Any) -> InterruptionMetadata | None:
        async with aiosqlite.connect(self.folder / "graph.db") as connection:
            return interruption_of(await use(self.make_agent(AsyncGraphFile(connection))))
