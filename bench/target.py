"""The process that is measured: the real server with the bare app beside it, and a window for the bench."""

import argparse
import asyncio
import cProfile
import os
import resource
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import ASGIApp

from bench import bare, heavy
from bench.quotas import OUT_OF_REACH
from placet.bootstrap.server import build
from placet.http.asgi import Receive, Scope, Send, build_json_reply, send_reply
from placet.http.listening import bind
from placet.server.app import FoundHandler, PlacetApp
from placet.server.logs import configure_logs
from placet.server.serving import run
from placet.settings import Settings

WINDOW = "/bench/"


class Usage(Struct, frozen=True, kw_only=True):
    """What the process has used so far."""

    cpu_s: float
    loop_cpu_s: float
    wall_s: float
    rss_kib: int
    longest_turn_s: float = 0.0
    """The most that the loop has worked without a pause since `turns/start`, in time of the processor."""


class Window:
    """What the bench may see of the process and ask of it; not part of the server."""

    def __init__(self, profile_to: Path) -> None:
        self._profile_to = profile_to
        self._profile: cProfile.Profile | None = None
        self._turns: asyncio.Task[None] | None = None
        self._longest_turn_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`usage` tells; `profile/start`, `profile/stop`, `turns/start` and `turns/stop` do as they say."""
        match scope["path"].removeprefix(WINDOW):
            case "profile/start":
                self._profile = cProfile.Profile()
                self._profile.enable()
            case "profile/stop" if self._profile is not None:
                self._profile.disable()
                self._profile.dump_stats(self._profile_to)
            case "turns/start":
                self._longest_turn_s = 0.0
                self._turns = asyncio.create_task(self._watch_turns())
            case "turns/stop" if self._turns is not None:
                self._turns.cancel()
        used = replace(usage(), longest_turn_s=self._longest_turn_s)
        await send_reply(send, build_json_reply(200, msgspec.json.encode(used)))

    async def _watch_turns(self) -> None:
        """Other programs take the processor away, not the loop's own time on it."""
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self._longest_turn_s, last = max(self._longest_turn_s, now - last), now


class CombinedApps:
    """Placet with other apps beside it, by the beginning of their paths: the yardstick, and the window."""

    def __init__(self, app: PlacetApp, beside: Mapping[str, ASGIApp]) -> None:
        self.streams = app.streams
        self.reply = app.reply
        self._app = app
        self._beside = beside
        self._beginnings = tuple(beside)

    def find_raw(self, scope: Scope) -> FoundHandler | None:
        """What is beside is ASGI and nothing else."""
        beside = scope["path"].startswith(self._beginnings)
        return None if beside else self._app.find_raw(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with the app its path names."""
        path = scope.get("path", "")
        beside = (app for beginning, app in self._beside.items() if path.startswith(beginning))
        await next(beside, self._app)(scope, receive, send)


def usage() -> Usage:
    """Of this process, now."""
    return Usage(
        cpu_s=time.process_time(), loop_cpu_s=time.thread_time(), wall_s=time.monotonic(), rss_kib=rss_kib()
    )


def rss_kib() -> int:
    """Resident memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() // 1024
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())], text=True))


def main() -> None:
    """Serve on a free port of the loopback address, told on standard output, until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("db")
    parser.add_argument("--profile-to", type=Path, default=Path("target.prof"))
    options = parser.parse_args()
    raise_file_limit()
    configure_logs(style="text", level="warning")
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    settings = Settings(
        db=options.db,
        port=port,
        polls_per_minute=0,
        signing="ES256",
        max_context_bytes=heavy.ROOM,
        **OUT_OF_REACH,
    )

    async def make_app() -> PlacetApp:
        parts = await build(settings)
        print(port, flush=True)
        beside: dict[str, ASGIApp] = {
            bare.PREFIX: bare.serve_bare_response,
            WINDOW: Window(options.profile_to),
        }
        return cast(PlacetApp, CombinedApps(cast(PlacetApp, parts.app), beside))

    run(listener, make_app)


def raise_file_limit() -> None:
    """Every open stream is an open file: take as many as the system grants."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
