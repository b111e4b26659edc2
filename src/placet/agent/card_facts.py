"""Which facts of a case a messenger shows beside its question, and the names of what it does not show."""

from typing import Any

from placet.ports.channel import ONLY_ON_PAGE

SHORT_FACT = 120
FACTS = 6
SHORT_NAME = 40


def select_facts(context: dict[str, Any], *, decides: bool) -> tuple[tuple[str, str], ...]:
    """The short, plain facts of a context; lists, objects and long texts are for the page.

    Where a button `decides`, the first fact names what only the page shows: nobody should say yes to what
    they cannot see without knowing that.
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
