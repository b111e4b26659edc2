"""A model on loopback that makes one tool call, and then says that it is done: in each vendor's dialect."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedModel:
    """The model: its tool call, and the requests that it got."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tool = ""
        self.arguments: dict[str, Any] = {}
        self.requests: list[str] = []

    def say(self, tool: str, **arguments: Any) -> None:
        """Call this tool in the next conversation."""
        self.tool, self.arguments = tool, arguments
        self.requests.clear()

    def read_results(self) -> str:
        """What the model read after the call."""
        return "\n".join(text for text in self.requests if _is_answered(text))

    def answer(self, path: str, text: str) -> tuple[str, str]:
        """The content type and the body of a response."""
        self.requests.append(text)
        calls = not _is_answered(text) and '"tools"' in text
        if path.split("?", maxsplit=1)[0].endswith("/messages"):
            return _stream(self._write_anthropic(calls))
        if path.split("?", maxsplit=1)[0].endswith("/responses"):
            return _stream(self._write_responses(calls))
        if "enerateContent" in path:
            found = self._write_gemini(calls)
            return _stream([found]) if "stream" in path.lower() else ("application/json", json.dumps(found))
        return _stream([*self._write_chat(calls), "[DONE]"])

    def _write_chat(self, calls: bool) -> Iterator[dict[str, Any]]:
        function = {"name": self.tool, "arguments": json.dumps(self.arguments)}
        said = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
        delta = {"tool_calls": said} if calls else {"content": "done"}
        common = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        yield {**common, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]}
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield {**common, "choices": [end], "usage": usage}

    def _write_gemini(self, calls: bool) -> dict[str, Any]:
        part = {"functionCall": {"name": self.tool, "args": self.arguments}} if calls else {"text": "done"}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage,
        }

    def _write_anthropic(self, calls: bool) -> Iterator[dict[str, Any]]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
        if calls:
            block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": self.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(self.arguments)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        reason = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": reason, "usage": usage}
        yield {"type": "message_stop"}

    def _write_responses(self, calls: bool) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        if calls:
            item: dict[str, Any] = {"type": "function_call", "call_id": "call_1", "name": self.tool}
            item["arguments"] = json.dumps(self.arguments)
        else:
            text = {"type": "output_text", "text": "done", "annotations": []}
            item = {"type": "message", "role": "assistant", "id": "msg_1", "content": [text]}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        yield {"type": "response.completed", "response": {"id": "resp_1", "output": [item], "usage": usage}}


def _is_answered(text: str) -> bool:
    """Whether a request holds the result of a call."""
    marks = ('"tool_result"', '"role":"tool"', '"role": "tool"', "functionResponse", "function_call_output")
    return any(mark in text for mark in marks)


def _stream(events: Any) -> tuple[str, str]:
    lines = []
    for event in events:
        if isinstance(event, dict) and "type" in event:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "text/event-stream", "".join(lines)


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    """A model that listens until the end of the block."""
    model: ScriptedModel

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            kind, text = model.answer(self.path, self.rfile.read(length).decode("utf-8", "replace"))
            self._reply(200, kind, text.encode())

        def do_GET(self) -> None:
            self._reply(404, "application/json", b"{}")

        def _reply(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        model = ScriptedModel(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield model
        server.shutdown()
