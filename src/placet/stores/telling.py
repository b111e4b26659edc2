"""Telling listeners what changed: each hears, whatever becomes of the others."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

Listener = Callable[[str | None], None]


def tell(listeners: Sequence[Listener], changed: Iterable[str | None]) -> None:
    """Call every listener with each name; one that fails is reported to the event loop."""
    for name in changed:
        for listener in listeners:
            try:
                listener(name)
            except Exception as error:
                context = {"message": "a listener to the store failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
