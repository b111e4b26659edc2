"""Listen with uvicorn: bind the port first, report when connections are accepted, end on a signal."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placet.errors import MissingExtra, SettingsError

try:
    import uvicorn
except ModuleNotFoundError as error:  # the extra `mcp` brings it too, so that the import hook cannot tell
    raise MissingExtra.of(__name__, "server") from error

Ready = Callable[[], None]


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


class ListeningServer(uvicorn.Server):
    """Calls `ready` once it accepts connections, and returns on SIGINT and SIGTERM."""

    def __init__(self, config: uvicorn.Config, ready: Ready) -> None:
        super().__init__(config)
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
