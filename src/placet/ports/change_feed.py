"""Notification of committed changes to cases."""

from collections.abc import Callable
from typing import Protocol


class ChangeFeed(Protocol):
    """Reports committed changes to cases."""

    def add_change_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener` in the event loop with each changed case's id, or None if any may have changed."""
        ...
