"""LangChain's own agent with approval, as the contract drives it: sync and async, on real SQLite files."""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar

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
from placet.hook.savers.sqlite import SqliteSaver
from placet.testing.approvals import LAST_WORDS, Harness, Scene
from tests.hook.frameworks.killable_agent import KillableHarness, Stands
from tests.hook.killable_process import FATE, LIFE_LIMIT_S, MortalSaver

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


class LangChainHarness(Harness):
    """`invoke`, `stream` and `resume`."""

    saver_type: ClassVar[type[SqliteSaver]] = SqliteSaver
    graph_file_type: ClassVar[type[GraphFile]] = GraphFile

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.saver = self.saver_type(self.folder / "approvals.db", clock=self.clock)
        self.model = ScriptedModel(scene=self.scene)
        # Not in the threads of a test: made in two at once, one may see a warning of pydantic's.
        self.made_tools = [tool(each) for each in self.tools]
        self._file = self.graph_file_type.from_conn_string(str(self.folder / "graph.db"))
        self.agent = self.make_agent(self._file.__enter__())

    def make_agent(self, checkpointer: Any) -> Any:
        approval = ApprovalMiddleware(self.hook, saver=self.saver, clock=self.clock)
        return create_agent(self.model, self.made_tools, middleware=[approval], checkpointer=checkpointer)

    def start(self, thread_id: str) -> InterruptionMetadata | None:
        return interruption_of(self.agent.invoke(GO, thread_config(thread_id)))

    def resume(self, thread_id: str, feedback: Feedback | None) -> InterruptionMetadata | None:
        return interruption_of(resume(self.agent, thread_id, feedback))

    def stream(self, thread_id: str) -> Iterable[InterruptionMetadata]:
        chunks = self.agent.stream(GO, thread_config(thread_id), stream_mode="updates")
        return [stopped for chunk in chunks if (stopped := interruption_of(chunk)) is not None]

    def read_tool_results(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return list_results(self.agent.get_state(thread_config(thread_id)).values["messages"])

    def close(self) -> None:
        self._file.__exit__(None, None, None)
        self.saver.close()


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


class MortalGraphFile(GraphFile):
    """Before everything that LangGraph keeps is a step; on a slow machine it waits longer for its turn."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator["MortalGraphFile"]:
        with closing(sqlite3.connect(conn_string, LIFE_LIMIT_S, check_same_thread=False)) as connection:
            yield cls(connection)

    def put(self, *args: Any, **named: Any) -> Any:
        FATE.step()
        return super().put(*args, **named)

    def put_writes(self, *args: Any, **named: Any) -> None:
        FATE.step()
        super().put_writes(*args, **named)


class KillableLangChain(LangChainHarness, KillableHarness):
    """May be killed."""

    saver_type = MortalSaver
    graph_file_type = MortalGraphFile

    def read_state(self, thread_id: str) -> Stands:
        snapshot = self.agent.get_state(thread_config(thread_id))
        if snapshot.created_at is None:
            return "new"
        return interruption_of(snapshot) or ("cut off" if snapshot.tasks else "over")
