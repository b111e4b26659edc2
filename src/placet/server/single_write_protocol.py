"""uvicorn's HTTP protocol with flat JSON errors, and with complete replies written in one piece.

Most requests are small, arrive in one piece and get one complete reply. For those, the ASGI messages (body
in, head out, body out, each awaited and checked) cost as much as the rest of the protocol. So they are
passed to the app together with their body, and the reply is written at once. Every other request uses
plain ASGI, and so does an app that has no raw routes.
"""

import re
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from placet.errors import ValidationFailed
from placet.http.asgi import AsgiMessage, BufferedBody, RawReply, Receive, Scope, Send, StreamedReplyNeeded

MAX_HEAD_BYTES = (
    256 * 1024
)  # counted from the second read on: the first may contain the body of an earlier request
WITH_BODY = ord("P")  # POST, PUT, PATCH
OFFERED_WITHIN = 1024  # bytes from the start: clients send the HTTP/2 offer next to Host
H2C = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n[^ \t])", re.IGNORECASE)
HOST = re.compile(rb"(?:\[[\w:.%~-]+\]|[\w.~!$&'()*+,;=%-]*)(?::[0-9]{0,5})?")  # RFC 3986, 3.2.2
HEAD_WITHIN_S = 20.0
BODY_WITHIN_S = 60.0
MIN_BODY_BYTES_PER_S = 10 * 1024  # bytes per second, by which a long body may take longer
MAX_HELD_BYTES = 32 * 1024  # the app reads a longer body in pieces


class SingleWriteProtocol(HttpToolsProtocol):
    """An HTTP protocol that writes complete replies at once, and limits requests in size and time."""

    _in_head = False
    _in_body = False
    _head_bytes = 0
    _body_bytes = 0
    _waiting_since: float | None = None
    """Since when the client is to send a request, or the rest of one."""
    _held: tuple[RequestResponseCycle, Any] | None = None
    _reading = False
    _problem = "This is not a valid HTTP request."

    def connection_made(self, transport: Any) -> None:
        """Start to wait for a request."""
        self._waiting_since = self.loop.time()
        super().connection_made(transport)

    def on_message_begin(self) -> None:
        """Start to count the bytes of the head, and its time."""
        self._in_head, self._head_bytes, self._body_bytes = True, 0, 0
        self._waiting_since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop to count the bytes of the head; refuse a request that does not name one host."""
        self._in_head, self._in_body = False, True
        hosts = [value for name, value in self.headers if name == b"host"]
        # RFC 9112, 3.2: exactly one valid Host; HTTP/1.0 does not have to send it.
        if len(hosts) != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            self._problem = "Send exactly one Host header."
            raise ValueError(self._problem)
        if hosts and HOST.fullmatch(hosts[0]) is None:
            self._problem = "The Host header is not the name or address of a host."
            raise ValueError(self._problem)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect the body; pass a request to the app once it is too large to buffer."""
        self._body_bytes += len(body)
        super().on_body(body)
        if self._held is not None and len(self._held[0].body) > MAX_HELD_BYTES:
            self._pass_to_app()

    def on_message_complete(self) -> None:
        """Answer the request, which is complete."""
        self._in_body, self._waiting_since = False, None
        super().on_message_complete()
        if self._held is not None and not self._held[0].more_body:
            cycle, found = self._held
            self._held = None
            self._start_reply(cycle, found)

    def data_received(self, data: bytes) -> None:
        """Parse the data, with a size limit: the parser holds a whole head in memory."""
        began_before = self._in_head
        if data[0] == WITH_BODY and data.find(b"HTTP2-Settings", 0, OFFERED_WITHIN) != -1:
            data = self._remove_http2_offer(data)
        self._reading = True
        super().data_received(data)
        self._reading = False
        if self._held is not None:  # the app has the timeout for the rest of the body
            self._pass_to_app()
        if self._waiting_since is None and self._is_idle() and self.timeout_keep_alive_task is None:
            self._waiting_since = self.loop.time()  # what came is not the beginning of a request
        if began_before and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_and_close(
                    "431 Request Header Fields Too Large", "The request's headers are too large."
                )

    def close_if_slow(self, now: float) -> None:
        """Close the connection if its request, or the rest of it, takes too long. Called once a second."""
        if self._waiting_since is None or self.transport.is_closing():
            return
        if self.flow.read_paused:  # the app does not read: this is not the client's fault
            self._waiting_since = now
            return
        allowed = BODY_WITHIN_S if self._in_body else HEAD_WITHIN_S
        if self._in_body and not self._is_idle():  # nobody needs the rest of a body after the reply
            allowed += self._body_bytes / MIN_BODY_BYTES_PER_S
        if now - self._waiting_since < allowed:
            return
        if self._is_idle() and not self._in_head:  # nothing was begun
            self.transport.close()
        elif self._is_idle() or not self.cycle.response_started:
            self._refuse_and_close("408 Request Timeout", "The request took too long to arrive.")
        else:
            self.transport.close()

    def _is_idle(self) -> bool:
        """Return whether no request waits for its reply."""
        return self.cycle is None or self.cycle.response_complete

    def _remove_http2_offer(self, data: bytes) -> bytes:
        """Return the data without an offer to upgrade to HTTP/2, which a server may ignore.

        Java's HTTP client sends it with every request, and the parser then drops the body.
        """
        if self.cycle is not None and self.cycle.more_body:
            return data  # never change a body
        head, end, rest = data.partition(b"\r\n\r\n")
        return H2C.sub(b"", head + end) + rest

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        find = getattr(app, "find_raw", None)
        found = find(cycle.scope) if find is not None and not cycle.waiting_for_100_continue else None
        if found is None:
            super()._start_asgi_task(cycle, _omit_chunks(cycle, app))
        elif cycle.more_body and self._reading:
            self._held = (cycle, found)
        elif cycle.more_body:
            super()._start_asgi_task(cycle, _omit_chunks(cycle, app))
        else:
            self._start_reply(cycle, found)

    def _pass_to_app(self) -> None:
        if self._held is not None:
            cycle, _ = self._held
            self._held = None
            super()._start_asgi_task(cycle, _omit_chunks(cycle, self.app))

    def _start_reply(self, cycle: RequestResponseCycle, found: Any) -> None:
        task = self.loop.create_task(self._answer(cycle, found))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _answer(self, cycle: RequestResponseCycle, found: Any) -> None:
        try:
            reply = await self.app.reply(found, cycle.scope, BufferedBody(bytes(cycle.body)))
            if self.flow.write_paused and not cycle.disconnected:
                await self.flow.drain()
        except StreamedReplyNeeded:
            await cycle.run_asgi(_omit_chunks(cycle, self.app))
            return
        except BaseException:
            self.transport.close()  # otherwise the client would wait for the reply
            raise
        if reply is not None and not cycle.disconnected:
            self._write(cycle, reply)

    def _write(self, cycle: RequestResponseCycle, reply: RawReply) -> None:
        """Write head and body at once; reply headers contain nothing that a client sent."""
        cycle.response_started = cycle.response_complete = True
        parts = [STATUS_LINE[reply.status]]
        for name, value in (*self.server_state.default_headers, *reply.headers):
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(reply.body)
        self.transport.write(b"".join(parts))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def send_400_response(self, msg: str) -> None:
        """Send an error and close the connection."""
        self._refuse_and_close("400 Bad Request", self._problem)

    def _refuse_and_close(self, status: str, words: str) -> None:
        body = msgspec.json.encode(ValidationFailed(words).body())
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        self.transport.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
        self.transport.close()


def _omit_chunks(cycle: RequestResponseCycle, app: Any) -> Any:
    """Return an app that sends replies without a length in one piece per message to HTTP/1.0 clients.

    They do not know chunks; for them the end of the connection is the end of the reply. uvicorn closes it.
    """
    if cycle.scope["http_version"] != "1.0":
        return app

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unchunked(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                if all(name.lower() != b"content-length" for name, _ in message.get("headers", ())):
                    cycle.chunked_encoding = False
            elif cycle.response_started and not cycle.expected_content_length and not cycle.chunked_encoding:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_unchunked)

    return serve
