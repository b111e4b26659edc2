"""Select the facts of a case that a messenger shows, and name those that only the page shows."""

from typing import Any

from placet.ports.channel import ONLY_ON_PAGE

SHORT_FACT = 120
FACTS = 6
SHORT_NAME = 40


def select_facts(context: dict[str, Any], *, decides: bool) -> tuple[tuple[str, str], ...]:
    """Return the short, scalar facts of a context; lists, objects and long texts are left to the page.

    If a button `decides`, the first fact names what only the page shows, so that nobody approves content
    without knowing that part of it is not visible.
    """
    plain = {
        name: str(value)
        for name, value in context.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }
    short = [name for name, value in plain.items() if 0 < len(value) <= SHORT_FACT][:FACTS]
    shown = tuple((_format_name(name), plain[name]) for name in short)
    unseen = [
        _format_name(name)[:SHORT_NAME] for name, value in context.items() if value and name not in short
    ]
    return ((ONLY_ON_PAGE, _join_names(unseen)), *shown) if decides and unseen else shown


def _join_names(names: list[str]) -> str:
    rest = len(names) - FACTS
    return ", ".join(names[:FACTS]) + (f" and {rest} more" if rest > 0 else "")


def _format_name(name: str) -> str:
    return name.replace("_", " ").capitalize()
