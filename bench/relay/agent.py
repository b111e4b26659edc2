"""The agent of the bench, in a process of its own: so little that it is never the limit."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import httptools

from bench.relay import scene
from placet.http.listening import bind
from placet.server.serving import create_event_loop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Answers:
    """Everything that can be answered, ready to be written."""

    def __init__(self, url: str) -> None:
        self.cards = {
            path: _whole(scene.card(url + path)) for path in (scene.FRESH_PATH, scene.PACED_PATH, "")
        }
        """By the path of the agent. The last one fits every path."""
        self.reply = _whole(scene.reply())
        self.stream = _chunked(scene.events())
        self.paced_stream = _chunked(scene.events(scene.PACED_EVENTS))
        self._before, self._after = self.reply.split(scene.TASK_ID.encode())
        self._numbers = count()

    def next(self) -> bytes:
        """The answer about a new task."""
        return b"%b%036d%b" % (self._before, next(self._numbers), self._after)


class Agent(asyncio.Protocol):
    """One connection."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Called by the parser, as are those below."""
        self._url = self._body = b""

    def on_url(self, url: bytes) -> None:
        """More of the path."""
        self._url += url

    def on_body(self, body: bytes) -> None:
        """More of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Answer."""
        answers = self._answers
        path = next(path for path in answers.cards if self._url.startswith(path.encode()))
        if self._parser.get_method() == b"GET":
            self._transport.write(answers.cards[path])
        elif b'"SendStreamingMessage"' in self._body:
            is_paced = path == scene.PACED_PATH
            stream = answers.paced_stream if is_paced else answers.stream
            self._tell(iter(stream), scene.PACE_S if is_paced else 0)
        else:
            self._transport.write(answers.next() if path == scene.FRESH_PATH else answers.reply)

    def _tell(self, pieces: Iterator[bytes], pace_s: float) -> None:
        """Each event in a turn of its own, as an agent tells what has just happened."""
        piece = next(pieces, None)
        if piece is not None and not self._transport.is_closing():
            self._transport.write(piece)
            loop = asyncio.get_running_loop()
            if pace_s and piece is not STREAM_HEAD:
                loop.call_later(pace_s, self._tell, pieces, pace_s)
            else:
                loop.call_soon(self._tell, pieces, pace_s)


def _chunked(events: Iterable[bytes]) -> tuple[bytes, ...]:
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    return (STREAM_HEAD, *chunks, b"0\r\n\r\n")


def _whole(body: bytes) -> bytes:
    return HEAD % len(body) + body


async def serve() -> None:
    """Answer on a free port, told on standard output, until the process is ended."""
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    answers = Answers(f"http://127.0.0.1:{port}")
    server = await asyncio.get_running_loop().create_server(lambda: Agent(answers), sock=listener)
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=create_event_loop) as runner:
        runner.run(serve())
