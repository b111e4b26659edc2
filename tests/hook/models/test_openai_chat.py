"""An agent on a chat endpoint: a loopback server, read and written by OpenAI's own types."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from placet.errors import ModelMisbehaved, SettingsError, Unavailable
from placet.hook import HumanInTheLoopHook, MemorySaver, ReactAgent
from placet.hook.events import TextDelta
from placet.hook.models.openai_chat import AsyncOpenAIChat, OpenAIChat, StreamingOpenAIChat
from tests.hook.scripted_model import Office, expect_interruption, expect_result

CALLS = [
    {
        "id": "c1",
        "type": "function",
        "function": {"name": "execute_sql", "arguments": '{"query": "SELECT 1"}'},
    }
]


class Endpoint:
    """Replies in order; every request is kept, as far as OpenAI's types can read it."""

    def __init__(self, replies: list[Any]) -> None:
        self.replies = replies
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    def answer(self, body: dict[str, Any]) -> tuple[int, str, bytes]:
        TypeAdapter(CompletionCreateParamsNonStreaming).validate_python({**body, "stream": False})
        self.requests.append(body)
        reply = self.replies[len(self.requests) - 1]
        if isinstance(reply, tuple):
            return reply[0], "application/json", reply[1]
        if body.get("stream"):
            return 200, "text/event-stream", b"".join(_pieces(reply))
        return 200, "application/json", _completion(reply).model_dump_json().encode()


def _completion(message: dict[str, Any]) -> ChatCompletion:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return ChatCompletion.model_validate(
        {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    )


def _pieces(message: dict[str, Any]) -> Iterator[bytes]:
    deltas: list[dict[str, Any]] = [{"content": letter} for letter in message.get("content") or ""]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        half = len(function["arguments"]) // 2
        first = {"name": function["name"], "arguments": function["arguments"][:half]}
        deltas.append(
            {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": first}]}
        )
        rest = {"arguments": function["arguments"][half:]}
        deltas.append({"tool_calls": [{"index": index, "function": rest}]})
    for delta in deltas:
        chunk = ChatCompletionChunk.model_validate(
            {
                "id": "x",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "m",
                "choices": [{"index": 0, "delta": delta}],
            }
        )
        yield b"data: " + chunk.model_dump_json(exclude_none=True).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


@contextmanager
def serve_endpoint(*replies: Any) -> Iterator[Endpoint]:
    endpoint = Endpoint(list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            endpoint.keys.append(self.headers.get("Authorization"))
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, kind, answer = endpoint.answer(body)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_agent_on_a_chat_endpoint_is_stopped_and_resumed() -> None:
    office = Office()
    with serve_endpoint({"tool_calls": CALLS}, {"content": "one row"}) as endpoint:
        model = OpenAIChat("any-model", base_url=endpoint.url, api_key="secret", temperature=0)
        agent = ReactAgent(
            "clerk",
            model,
            office.tools,
            [HumanInTheLoopHook({"execute_sql": True})],
            instructions="Be brief.",
            saver=MemorySaver(),
        )
        waiting = expect_interruption(agent.invoke("how many?", thread_id="t"))
        assert waiting.tool_feedbacks[0].arguments == {"query": "SELECT 1"}
        assert expect_result(agent.resume("t", waiting.approve_all())).text == "one row"
        first, second = endpoint.requests
    assert endpoint.keys == ["Bearer secret"] * 2
    assert first["temperature"] == 0
    assert [tool["function"]["name"] for tool in first["tools"]] == ["write_file", "execute_sql", "read_data"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "ran SELECT 1"}


def test_the_same_on_an_event_loop() -> None:
    with serve_endpoint({"content": "hello"}) as endpoint:
        agent = ReactAgent("clerk", AsyncOpenAIChat("any-model", base_url=endpoint.url), saver=MemorySaver())
        assert expect_result(asyncio.run(agent.ainvoke("hi"))).text == "hello"


def test_a_reply_is_heard_while_it_is_written() -> None:
    office = Office()
    with serve_endpoint({"content": "Hm", "tool_calls": CALLS}, {"content": "ok"}) as endpoint:
        agent = ReactAgent(
            "clerk",
            StreamingOpenAIChat("any-model", base_url=endpoint.url),
            office.tools,
            saver=MemorySaver(),
        )
        events = list(agent.stream("go"))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["H", "m", "o", "k"]
    assert office.ran == [("execute_sql", "SELECT 1")]

    async def heard() -> list[str]:
        agent = ReactAgent(
            "clerk", StreamingOpenAIChat("any-model", base_url=endpoint.url), saver=MemorySaver()
        )
        return [event.text async for event in agent.astream("go") if isinstance(event, TextDelta)]

    with serve_endpoint({"content": "async"}) as endpoint:
        assert asyncio.run(heard()) == list("async")


@pytest.mark.parametrize("kind", [OpenAIChat, StreamingOpenAIChat])
def test_an_endpoint_that_is_away_or_odd_is_a_clear_error(kind: Any) -> None:
    with serve_endpoint((500, b"oops")) as endpoint:
        with pytest.raises(Unavailable, match="500"):
            ReactAgent("clerk", kind("any-model", base_url=endpoint.url), saver=MemorySaver()).invoke("hi")
        gone = endpoint.url
    with pytest.raises(Unavailable, match="cannot be reached"):
        ReactAgent("clerk", kind("any-model", base_url=gone), saver=MemorySaver()).invoke("hi")
    with serve_endpoint((200, b"data: {}\n\n")) as endpoint, pytest.raises(ModelMisbehaved):
        ReactAgent("clerk", kind("any-model", base_url=endpoint.url), saver=MemorySaver()).invoke("hi")


def test_a_key_is_not_sent_in_the_clear() -> None:
    with pytest.raises(SettingsError, match="https"):
        OpenAIChat("any-model", base_url="http://models.example.com/v1", api_key="secret")


def build_stream(*lines: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(line).encode() + b"\n\n" for line in lines)


class Cupboard:
    """Has a tool that can do without arguments, and then does a lot."""

    def __init__(self) -> None:
        self.cleared: list[str] = []

    def clear(self, shelf: str = "all of them") -> str:
        """Clear a shelf."""
        self.cleared.append(shelf)
        return f"cleared {shelf}"


NAMED = {"id": "c1", "index": 0, "type": "function", "function": {"name": "clear", "arguments": ""}}


def test_a_streamed_reply_that_breaks_off_before_the_arguments_runs_nothing() -> None:
    cupboard = Cupboard()
    said = build_stream({"choices": [{"index": 0, "delta": {"tool_calls": [NAMED]}}]})
    with serve_endpoint((200, said)) as endpoint:
        chat = StreamingOpenAIChat("any-model", base_url=endpoint.url)
        with pytest.raises(Unavailable, match="closed the connection"):
            ReactAgent("clerk", chat, [cupboard.clear], saver=MemorySaver()).invoke("go")
    assert cupboard.cleared == []


@pytest.mark.parametrize("kind", [OpenAIChat, StreamingOpenAIChat])
def test_a_call_of_which_only_the_name_fitted_into_the_reply_does_not_run(kind: Any) -> None:
    cupboard = Cupboard()
    asked = {"role": "assistant", "content": None, "tool_calls": [NAMED]}
    choice = {"index": 0, "finish_reason": "length", "message": asked, "delta": asked}
    whole = {"choices": [choice]}
    said = build_stream(whole) if kind is StreamingOpenAIChat else json.dumps(whole).encode()
    with serve_endpoint((200, said), {"content": "ok"}) as endpoint:
        expect_result(
            ReactAgent(
                "clerk", kind("any-model", base_url=endpoint.url), [cupboard.clear], saver=MemorySaver()
            ).invoke("go")
        )
        told = endpoint.requests[1]["messages"][-1]["content"]
    assert "Nothing was run" in told
    assert cupboard.cleared == []


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_streamed_calls_are_told_apart_although_the_endpoint_does_not_number_them(index: Any) -> None:
    def part(call_id: str, arguments: str) -> dict[str, Any]:
        function = {"name": "execute_sql", "arguments": arguments}
        return {**index, "id": call_id, "type": "function", "function": function}

    parts = [part("a", '{"query":'), part("a", ' "1"}'), part("b", '{"query": "2"}')]
    lines = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in parts]
    said = build_stream(*lines) + b"data: [DONE]\n\n"
    office = Office()
    with serve_endpoint((200, said), {"content": "ok"}) as endpoint:
        chat = StreamingOpenAIChat("any-model", base_url=endpoint.url)
        expect_result(ReactAgent("clerk", chat, office.tools, saver=MemorySaver()).invoke("go"))
    assert sorted(office.ran) == [("execute_sql", "1"), ("execute_sql", "2")]


def test_a_call_that_the_endpoint_gave_no_id_runs() -> None:
    function = {"name": "execute_sql", "arguments": '{"query": "1"}'}
    message = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
    said = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
    office = Office()
    with serve_endpoint((200, said), {"content": "ok"}) as endpoint:
        chat = OpenAIChat("any-model", base_url=endpoint.url)
        expect_result(ReactAgent("clerk", chat, office.tools, saver=MemorySaver()).invoke("go"))
    assert office.ran == [("execute_sql", "1")]
