"""Any LangChain chat model as an agent's model."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from placet.errors import ModelMisbehaved
from placet.hook.checkpoint import Message

Schema = dict[str, Any]


class LangChainChat:
    """Calls a LangChain chat model synchronously."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model

    def __call__(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Message:
        """Return the next assistant message."""
        return read_reply(
            bind_tools(self._model, tools).invoke([to_langchain_message(message) for message in messages])
        )


class AsyncLangChainChat:
    """Async version of LangChainChat."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model

    async def __call__(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Message:
        """Return the next assistant message."""
        return read_reply(
            await bind_tools(self._model, tools).ainvoke(
                [to_langchain_message(message) for message in messages]
            )
        )


def bind_tools(model: BaseChatModel, tools: Sequence[Schema]) -> Any:
    """Return the model with these tools bound, if there are any."""
    return model.bind_tools([{"type": "function", "function": tool} for tool in tools]) if tools else model


def to_langchain_message(message: Message) -> BaseMessage:
    """Return a message in LangChain's form."""
    if message["role"] == "tool":
        return ToolMessage(content=message["content"], tool_call_id=message["tool_call_id"])
    if message["role"] == "assistant":
        calls = [
            {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
            for call in message.get("tool_calls", ())
        ]
        return AIMessage(content=message["content"], tool_calls=calls)
    kinds: dict[str, Callable[..., BaseMessage]] = {"system": SystemMessage, "user": HumanMessage}
    return kinds[message["role"]](content=message["content"])


def read_reply(said: BaseMessage) -> Message:
    """Return LangChain's reply as a message; unparsable calls keep their text and are refused later."""
    if not isinstance(said, AIMessage):
        raise ModelMisbehaved("The chat model did not answer with an assistant message.")
    readable = [(call["id"], call["name"], call["args"]) for call in said.tool_calls]
    broken = [(call["id"], call["name"], call["args"]) for call in said.invalid_tool_calls]
    calls = [{"id": one, "name": name, "arguments": args} for one, name, args in (*readable, *broken)]
    return {"role": "assistant", "content": said.text, "tool_calls": calls}
