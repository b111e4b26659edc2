"""The yardstick: a proxy in raw ASGI over aiohttp that passes everything on and looks at nothing."""

import aiohttp
from yarl import URL

from placet.http.asgi import Receive, Scope, Send

PREFIX = "/raw"
# What belongs to one connection only, by RFC 9110.
HOP_BY_HOP = frozenset(
    {b"connection", b"host", b"content-length", b"transfer-encoding", b"keep-alive", b"te", b"upgrade"}
)


class RawProxy:
    """Passes requests on to one agent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request there and back, its answer as a whole or as it comes."""
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name not in HOP_BY_HOP
        }
        url = URL(self._url + scope["path"][len(PREFIX) :], encoded=True)
        async with self._opened().request(scope["method"], url, data=body, headers=headers) as response:
            kept = [(name.lower(), value) for name, value in response.raw_headers]
            head = [one for one in kept if one[0] not in HOP_BY_HOP]
            if response.content_type == "text/event-stream":
                await send({"type": "http.response.start", "status": response.status, "headers": head})
                async for chunk in response.content.iter_any():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                return
            whole = await response.read()
        head.append((b"content-length", b"%d" % len(whole)))
        await send({"type": "http.response.start", "status": response.status, "headers": head})
        await send({"type": "http.response.body", "body": whole})

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session
