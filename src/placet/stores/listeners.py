"""Notification of listeners after a commit."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

ChangeListener = Callable[[str | None], None]


class CommitListeners:
    """The listeners of a store: those for changed cases, and those for tenants with changed records."""

    def __init__(self) -> None:
        self._case_listeners: list[ChangeListener] = []
        self._record_listeners: list[ChangeListener] = []

    def add_change_listener(self, listener: ChangeListener) -> None:
        """Call `listener` after each commit with every case that it changed; None: another process wrote."""
        self._case_listeners.append(listener)

    def add_record_listener(self, listener: ChangeListener) -> None:
        """Call `listener` after each commit with every tenant whose records it changed."""
        self._record_listeners.append(listener)

    def notify_record_listeners(self, tenant: str | None) -> None:
        """Report changed records of a tenant to the listeners; None: of any tenant."""
        _notify(self._record_listeners, [tenant])

    def notify_listeners(self, cases: Iterable[str | None], tenants: Iterable[str] = ()) -> None:
        """Report changed cases, and the tenants whose records changed; None: another process wrote."""
        _notify(self._case_listeners, cases)
        _notify(self._record_listeners, tenants)


def _notify(listeners: Sequence[ChangeListener], names: Iterable[str | None]) -> None:
    """Call every listener with each name. A failing listener is reported to the event loop."""
    for name in names:
        for listener in listeners:
            try:
                listener(name)
            except Exception as error:
                context = {"message": "store_listener_failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
