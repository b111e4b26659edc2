"""Notification of listeners after a commit."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

Listener = Callable[[str | None], None]


def notify_listeners(listeners: Sequence[Listener], changed: Iterable[str | None]) -> None:
    """Call every listener with each name. A failing listener is reported to the event loop."""
    for name in changed:
        for listener in listeners:
            try:
                listener(name)
            except Exception as error:
                context = {"message": "store_listener_failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
