"""The yardstick: an app that does next to nothing, served by the same process and uvicorn as Placet."""

from typing import Any

import msgspec
from msgspec import Struct

from placet.http.asgi import Receive, Scope, Send

PREFIX = "/bare"
BODY = b'{"answer":"%b"}' % (b"x" * 187)  # 200 bytes
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
START = {"type": "http.response.start", "status": 200, "headers": HEADERS}
END = {"type": "http.response.body", "body": BODY}


class RequestBody(Struct):
    """What a body may hold: the members of a draft and of an answer, with their types."""

    type: str | None = None
    prompt: str | None = None
    timeout: str | None = None
    default_action: str | None = None
    inline_actions: list[str] = []
    context: dict[str, Any] = {}
    action: str | None = None
    data: dict[str, Any] = {}
    submitted_via: str | None = None
    submitted_by: dict[str, str] = {}


_decode = msgspec.json.Decoder(RequestBody).decode


async def serve_bare_response(scope: Scope, receive: Receive, send: Send) -> None:
    """200 with 200 bytes; a POST's body is read and checked against its types, as any app would."""
    if scope["method"] == "POST":
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        _decode(body)
    await send(START)
    await send(END)
