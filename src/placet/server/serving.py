"""Run an app under uvicorn: bind the port first, and end event streams first on shutdown."""

import asyncio
import gc
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import uvicorn

from placet.errors import SettingsError
from placet.server.app import PlacetApp
from placet.server.single_write_protocol import SingleWriteProtocol

STOP_WITHIN_S = 6  # longer than a write waits for a lock; the whole shutdown stays under ten seconds

if TYPE_CHECKING:
    from placet.server.tracing import TracedApp

ServedApp: TypeAlias = "PlacetApp | TracedApp"
Ready = Callable[[], None]


class StreamClosingServer(uvicorn.Server):
    """A server that closes its event streams on shutdown, before it waits for other requests."""

    def __init__(self, config: uvicorn.Config, app: ServedApp, ready: Ready) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then call `ready`."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop in order on SIGINT and SIGTERM; the base class would raise the signal again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: end streams, finish running requests, write accepted changes to disk."""
        for server in self.servers:
            server.close()
        await self._app.streams.close()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket; raise SettingsError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(f"Cannot listen on {host} port {port}: {error.strerror}.") from error
    listener.set_inheritable(True)
    return listener


def run(
    listener: socket.socket, make_app: Callable[[], Awaitable[ServedApp]], *, ready: Ready = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; the app is created inside the event loop that it runs in.

    `ready` is called once the server listens. Raises SettingsError if the server cannot start.
    """

    async def main() -> None:
        server = build_server(await make_app(), ready)
        tune_garbage_collector()
        await server.serve(sockets=[listener])
        if not server.started:
            raise SettingsError("The server could not start; see the log for the reason.")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def build_server(app: ServedApp, ready: Ready = lambda: None) -> StreamClosingServer:
    """Return a uvicorn server for this app."""
    config = uvicorn.Config(
        app,
        http=SingleWriteProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # URLs are built from base_url, never from request headers
        lifespan="on",
        timeout_graceful_shutdown=STOP_WITHIN_S,
        timeout_keep_alive=75,
        backlog=2048,
    )
    return StreamClosingServer(config, app, ready)


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely, and never over objects that live as long as the server.

    Requests leave few reference cycles; searching for them at the default rate costs about 4 % of a reply.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest event loop available on this platform."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
