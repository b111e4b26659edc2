"""The process that is measured: the real server with its relay, the raw proxy and the window beside it."""

import argparse
import sys
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from bench.quotas import OUT_OF_REACH
from bench.relay.raw import PREFIX, RawProxy
from bench.relay.scene import CALLERS, relay_settings
from bench.target import WINDOW, CombinedApps, Window, raise_file_limit
from placet.bootstrap.server import build
from placet.desk import clock
from placet.desk.api_keys import create_key
from placet.http.asgi import AsgiMessage, Receive, Scope, Send
from placet.http.listening import bind
from placet.server.app import PlacetApp
from placet.server.logs import configure_logs
from placet.server.serving import run
from placet.settings import Settings

ADMIN = "admin"


class RelayWithRawProxy(CombinedApps):
    """The relay's server with the raw proxy and the window beside it."""

    def __init__(self, app: PlacetApp, raw: RawProxy, window: Window) -> None:
        super().__init__(app, {PREFIX: raw, WINDOW: window})
        self._raw = raw

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, the raw proxy's without a detour; its connections end with the server."""
        if scope["type"] != "lifespan":
            raw = scope.get("path", "").startswith(PREFIX)
            await (self._raw if raw else super().__call__)(scope, receive, send)
            return

        async def ending() -> AsgiMessage:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._raw.aclose()
            return message

        await super().__call__(scope, ending, send)


class StartReport(Struct, frozen=True, kw_only=True):
    """What the bench is told once the server is there: its port, a key for each agent, one for everything."""

    port: int
    keys: dict[str, str]


def main() -> None:
    """Serve on a free port of the loopback address, told on standard output, until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("agent")
    parser.add_argument("--profile-to", type=Path, default=Path("target.prof"))
    options = parser.parse_args()
    raise_file_limit()
    configure_logs(style="text", level="warning")
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    settings = Settings(
        db=str(options.folder / "relay.db"),
        port=port,
        allow_loopback=True,
        relay=relay_settings(options.folder, options.agent),
        **OUT_OF_REACH,
    )

    async def make_app() -> PlacetApp:
        parts = await build(settings)
        keys = {
            agent: await create_key(parts.store, name, now=clock.now()) for agent, name in CALLERS.items()
        }
        keys[ADMIN] = await create_key(parts.store, ADMIN, now=clock.now(), scopes=("admin",))
        sys.stdout.buffer.write(msgspec.json.encode(StartReport(port=port, keys=keys)) + b"\n")
        sys.stdout.flush()
        app = cast(PlacetApp, parts.app)
        return cast(PlacetApp, RelayWithRawProxy(app, RawProxy(options.agent), Window(options.profile_to)))

    run(listener, make_app)


if __name__ == "__main__":
    main()
