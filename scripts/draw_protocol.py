"""Draws tables of the protocol: version windows, the schedule of callbacks, the problems of form fields."""

from placet.desk.delivery_retries import JITTER_SHARE, RETRY_SCHEDULE
from placet.protocol.answer_problems import CATALOGUE
from placet.protocol.duration import format_duration
from placet.protocol.versions import (
    DEFAULT_VERSION,
    HITL_SINCE,
    POLL_SINCE,
    SPEC_VERSIONS,
    is_at_least,
)
from scripts.drawing import code, table


def draw_windows() -> str:
    """Which version has which field."""
    windows = {
        **{f"`hitl.{name}`": since for name, since in HITL_SINCE.items()},
        **{f"`{name}` in polls": since for name, since in POLL_SINCE.items()},
    }
    heads = [f"{one} (default)" if one == DEFAULT_VERSION else one for one in SPEC_VERSIONS]
    rows = [
        (name, *("yes" if is_at_least(version, since) else "no" for version in SPEC_VERSIONS))
        for name, since in windows.items()
    ]
    return table(("", *heads), rows)


def draw_schedule() -> str:
    """When a callback is tried again."""
    rows = [
        (number, format_duration(wait) if wait else "at once")
        for number, wait in enumerate(RETRY_SCHEDULE, start=1)
    ]
    note = f"Each wait is lengthened by up to {JITTER_SHARE:.0%}, at random."
    return f"{table(('Attempt', 'After the one before'), rows)}\n\n{note}"


def draw_field_problems() -> str:
    """What can be wrong with the answer to a field."""
    return table(
        ("Code", "What the person reads"), [(code(name), words) for name, words in CATALOGUE.items()]
    )
