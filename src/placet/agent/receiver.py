"""A small web server for callbacks, for an agent that has none."""

from typing import Self

from aiohttp import web

from placet.agent.callbacks import MAX_BODY_BYTES, Callbacks


class CallbackReceiver:
    """A small web server for an agent that has none: `async with CallbackReceiver(callbacks) as receiver`."""

    def __init__(
        self, callbacks: Callbacks, *, host: str = "127.0.0.1", port: int = 0, path: str = "/callbacks"
    ) -> None:
        self._callbacks = callbacks
        self._host = host
        self._port = port
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post(path, self._receive)
        self._path = path
        self._runner = web.AppRunner(app, access_log=None)

    @property
    def url(self) -> str:
        """The URL on which it listens, as seen from this machine."""
        return f"http://{self._host}:{self._port}{self._path}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        taken = self._callbacks.take(await request.read(), request.headers)
        return web.Response(status=400 if taken == "unreadable" else 204)
