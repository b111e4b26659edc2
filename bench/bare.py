"""The yardstick: an app that does nothing, served by the same process and the same uvicorn as Assent."""

from assent.server.wire import Receive, Scope, Send

PREFIX = "/bare"
BODY = b'{"answer":"%b"}' % (b"x" * 187)  # 200 bytes
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
START = {"type": "http.response.start", "status": 200, "headers": HEADERS}
END = {"type": "http.response.body", "body": BODY}


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """200 with 200 bytes; a POST's body is read to its end and not looked at."""
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    await send(START)
    await send(END)
