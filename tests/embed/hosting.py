"""An app of someone's own, served by uvicorn in a thread, as they would serve it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from placet.http.listening import bind
from placet.server.serving import create_event_loop
from tests.waiting import PATIENCE_S, eventually

STOP_WITHIN_S = 1
App = Callable[..., Any]


class Hosted:
    """A running app: its address, and callers with a name."""

    def __init__(self, url: str) -> None:
        self.url = url

    @contextmanager
    def caller(self, name: str | None = None, **options: Any) -> Iterator[httpx.Client]:
        """A client that says who it is in the way the app asks for."""
        headers = {"X-User": name} if name else {}
        with httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, **options) as client:
            yield client


@contextmanager
def hosting(make_app: Callable[[str], App]) -> Iterator[Hosted]:
    """Serve the app that `make_app` builds for its own address."""
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        make_app(url),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    server = uvicorn.Server(config)

    def serve() -> None:
        with asyncio.Runner(loop_factory=create_event_loop) as runner:
            runner.run(server.serve(sockets=[listener]))

    thread = threading.Thread(target=serve, name="host")
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive())
        assert server.started
        yield Hosted(url)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive(), "the app did not stop"
