"""Run an app under uvicorn, and end event streams first on shutdown."""

import asyncio
import gc
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import uvicorn

from placet.errors import SettingsError
from placet.http.listening import ListeningServer, Ready
from placet.server.app import PlacetApp
from placet.server.cross_origin import CrossOriginApp
from placet.server.single_write_protocol import SingleWriteProtocol

TICKS_PER_S = 10  # of uvicorn
MIN_OPEN_FILES = 64  # with fewer, the database or a connection cannot be opened, or libuv aborts
STOP_WITHIN_S = 6  # longer than a write waits for a lock; the whole shutdown stays under ten seconds

if TYPE_CHECKING:
    from placet.server.tracing import TracedApp

ServedApp: TypeAlias = "PlacetApp | TracedApp | CrossOriginApp"


class StreamClosingServer(ListeningServer):
    """Closes slow connections, and on shutdown its event streams before it waits for other requests."""

    def __init__(self, config: uvicorn.Config, app: ServedApp, ready: Ready) -> None:
        super().__init__(config, ready)
        self._app = app

    async def on_tick(self, counter: int) -> bool:
        """Close connections whose request takes too long, once a second; return whether to stop."""
        if counter % TICKS_PER_S == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, SingleWriteProtocol):
                    connection.close_if_slow(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: end streams, finish running requests, write accepted changes to disk."""
        for server in self.servers:
            server.close()
        await self._app.streams.close()
        await super().shutdown(sockets)


def run(
    listener: socket.socket, make_app: Callable[[], Awaitable[ServedApp]], *, ready: Ready = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; the app is created inside the event loop that it runs in.

    `ready` is called once the server listens. Raises SettingsError if the server cannot start.
    """
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= most_files < MIN_OPEN_FILES:  # negative: no limit
        raise SettingsError(
            f"This process may open only {most_files} files, and a server needs at least {MIN_OPEN_FILES}."
            " Raise the limit: `ulimit -n`, or LimitNOFILE of systemd."
        )

    async def main() -> None:
        server = build_server(await make_app(), ready)
        tune_garbage_collector()
        await server.serve(sockets=[listener])
        if not server.started:
            raise SettingsError("The server could not start; see the log for the reason.")

    with asyncio.Runner(loop_factory=create_event_loop) as runner:
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


def create_event_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest event loop available on this platform."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
