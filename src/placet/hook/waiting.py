"""Waiting for a case to close: by the event stream of its server, and otherwise by the clock."""

import inspect
import logging
from collections.abc import Awaitable, Mapping
from time import monotonic, sleep
from typing import Any, Protocol

from placet.hook.async_values import find_waiting_loop, is_on_loop, wait_for_value

logger = logging.getLogger(__name__)
POLL_INTERVAL_S = 1.0
"""How often a case is polled whose reviews report no events."""
SAFETY_INTERVAL_S = 15.0
"""How often a case is polled although its events are followed."""


class ReportsEnds(Protocol):
    """Reviews that say at once when a case closes; the method may be async. Others are polled."""

    def wait_for_case(self, case: Mapping[str, Any], at_most: float) -> Awaitable[None] | None:
        """Return when the case has closed, or after `at_most` seconds, or raise."""
        ...


def wait_for_case(
    reviews: object, case: Mapping[str, Any] | None, at_most: float, *, poll_interval: float = POLL_INTERVAL_S
) -> None:
    """Return when the case may have closed: then, or when it is time to poll it. No error is raised."""
    wait, began = getattr(reviews, "wait_for_case", None), monotonic()
    if wait is None or case is None:
        sleep(max(0.0, min(at_most, poll_interval)))
        return
    at_most = min(at_most, SAFETY_INTERVAL_S)
    try:
        waited = wait(case, at_most)
        if inspect.isawaitable(waited):
            if find_waiting_loop() is None or is_on_loop():
                waited.close()  # type: ignore[attr-defined] # it was not started
                sleep(max(0.0, min(at_most, poll_interval)))
            else:
                wait_for_value(waited)
    except Exception as error:  # such as too many streams, or a server that restarts
        logger.debug("events_not_followed case=%s error=%r", case.get("case_id"), error)
        sleep(max(0.0, min(at_most, poll_interval) - (monotonic() - began)))
