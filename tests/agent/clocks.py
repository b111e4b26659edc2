"""The clock of an agent that deals with a server in a test."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from tests.server.running import RunningServer


def make_ticking_clock(server: RunningServer) -> Callable[[], datetime]:
    """The server's day, in which time passes."""
    began = time.monotonic()
    return lambda: server.clock() + timedelta(seconds=time.monotonic() - began)
