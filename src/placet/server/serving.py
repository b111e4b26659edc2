"""Runs an app under uvicorn: binds first, so that port 0 is known; ends streams first when it stops."""

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

STOP_WITHIN_S = 6  # longer than a write waits for another process, and all of the end within ten seconds

if TYPE_CHECKING:
    from placet.server.tracing import TracedApp

ServedApp: TypeAlias = "PlacetApp | TracedApp"
Ready = Callable[[], None]


class PatientServer(uvicorn.Server):
    """A server that closes its event streams before it waits for the rest, and ends well when told to."""

    def __init__(self, config: uvicorn.Config, app: ServedApp, ready: Ready) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so once it is true."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop the server in order; the base class would have them kill it afterwards."""
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
        """Stop: streams end, requests under way finish, accepted writes reach the disk."""
        for server in self.servers:
            server.close()
        await self._app.streams.close()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises SettingsError naming what is in the way."""
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
    """Serve until SIGINT or SIGTERM; the app is made inside the loop it will run in.

    `ready` is called once the server listens. Raises SettingsError when it could not start.
    """

    async def main() -> None:
        server = server_for(await make_app(), ready)
        calm_collector()
        await server.serve(sockets=[listener])
        if not server.started:
            raise SettingsError("The server could not start; the log says why.")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def server_for(app: ServedApp, ready: Ready = lambda: None) -> PatientServer:
    """A uvicorn server for this app."""
    config = uvicorn.Config(
        app,
        http=SingleWriteProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # addresses come from base_url, never from what a request claims
        lifespan="on",
        timeout_graceful_shutdown=STOP_WITHIN_S,
        timeout_keep_alive=75,
        backlog=2048,
    )
    return PatientServer(config, app, ready)


def calm_collector() -> None:
    """Let the garbage collector look seldom, and never again at what a server holds for good.

    Requests leave few cycles behind; looking for them at the default pace costs some 4 % of every answer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop this platform has."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
