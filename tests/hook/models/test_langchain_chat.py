"""An agent on a LangChain chat model."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from placet.errors import ModelMisbehaved
from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent
from placet.hook.models.langchain import AsyncLangChainChat, LangChainChat
from tests.hook.scripted_model import Office, expect_interruption, expect_result


class RecordingChatModel(FakeMessagesListChatModel):
    """A scripted chat model that remembers what it was bound to and asked."""

    seen: list[Any]

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.seen.append([tool["function"]["name"] for tool in tools])
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.seen.append(messages)
        return super()._generate(messages, *args, **kwargs)


def script(*replies: BaseMessage) -> RecordingChatModel:
    return RecordingChatModel(responses=list(replies), seen=[])


def test_an_agent_on_a_langchain_model_is_stopped_and_resumed() -> None:
    asks = AIMessage(
        content="", tool_calls=[{"id": "c1", "name": "execute_sql", "args": {"query": "SELECT 1"}}]
    )
    model = script(asks, AIMessage(content="one row"))
    office = Office()
    agent = ReactAgent(
        "clerk",
        LangChainChat(model),
        office.tools,
        [HumanInTheLoopHook({"execute_sql": True})],
        instructions="Be brief.",
        saver=MemorySaver(),
    )
    waiting = expect_interruption(agent.invoke("how many?", thread_id="t"))
    assert expect_result(agent.resume("t", waiting.approve_all())).text == "one row"
    assert model.seen[0] == ["write_file", "execute_sql", "read_data"]
    assert [type(message) for message in model.seen[-1]] == [
        SystemMessage,
        HumanMessage,
        AIMessage,
        ToolMessage,
    ]
    assert office.ran == [("execute_sql", "SELECT 1")]


def test_the_same_on_an_event_loop() -> None:
    agent = ReactAgent("clerk", AsyncLangChainChat(script(AIMessage(content="hello"))), saver=MemorySaver())
    assert expect_result(asyncio.run(agent.ainvoke("hi"))).text == "hello"


def test_a_call_that_langchain_could_not_read_is_refused_and_runs_nothing() -> None:
    broken: Any = {
        "id": "c1",
        "name": "execute_sql",
        "args": '{"query": ',
        "error": "cut",
        "type": "invalid_tool_call",
    }
    model = script(AIMessage(content="", invalid_tool_calls=[broken]), AIMessage(content="sorry"))
    office = Office()
    outcome = expect_result(
        ReactAgent("clerk", LangChainChat(model), office.tools, saver=MemorySaver()).invoke("go")
    )
    assert "not JSON" in outcome.messages[2]["content"]
    assert office.ran == []


def test_a_reply_that_is_not_the_assistants_is_an_error() -> None:
    with pytest.raises(ModelMisbehaved):
        ReactAgent("clerk", LangChainChat(script(HumanMessage(content="hi"))), saver=MemorySaver()).invoke(
            "go"
        )
