"""Select the facts of a case that a messenger shows, and name those that only the page shows."""

from collections.abc import Sequence
from typing import Any

from placet.ports.channel import ONLY_ON_PAGE
from placet.text.lookalikes import fold_name
from placet.text.truncation import to_single_line

SAYS_IT_IS = "Says it is"
"""The name of the fact that tells what the service calls itself."""
SHORT_FACT = 120
FACTS = 6
ENTRIES = 5  # with the service's name and the note about the rest, most messengers show all of them
NAMES = ("title", "label", "name", "id", "value", "key")
UNTITLED = "(no title)"
SHORT_NAME = 40
_OWN_NAMES = frozenset(map(fold_name, (SAYS_IT_IS, ONLY_ON_PAGE)))


def select_facts(
    context: dict[str, Any], *, decides: bool, lists: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the short, scalar facts of a context; lists, objects and long texts are left to the page.

    The first list under a name in `lists` comes first, one fact for each entry. If a button `decides`, the
    first fact names what only the page shows, so that nobody approves content without knowing that part of
    it is not visible. A field that is named like one of our own facts is left to the page: its value would
    look like our words.
    """
    plain = {
        name: str(value)
        for name, value in context.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }
    short = [name for name, value in plain.items() if 0 < len(value) <= SHORT_FACT and not _is_ours(name)]
    short = short[:FACTS]
    listed = next((name for name in lists if isinstance(context.get(name), list)), None)
    shown = (
        *(_list_entries(context[listed]) if listed else ()),
        *((_format_name(name), plain[name]) for name in short),
    )
    unseen = [
        _format_name(name)[:SHORT_NAME] for name, value in context.items() if value and name not in short
    ]
    return ((ONLY_ON_PAGE, _join_names(unseen)), *shown) if decides and unseen else shown


def _list_entries(entries: list[Any]) -> list[tuple[str, str]]:
    """Return one numbered fact for each of the first entries, and how many more there are."""
    facts = [
        (f"Choice {number}", _find_title(entry)) for number, entry in enumerate(entries[:ENTRIES], start=1)
    ]
    rest = len(entries) - ENTRIES
    return [*facts, (ONLY_ON_PAGE, f"{rest} more")] if rest > 0 else facts


def _find_title(entry: Any) -> str:
    titles = [entry.get(name) for name in NAMES] if isinstance(entry, dict) else [entry]
    texts = (str(title) for title in titles if isinstance(title, str | int | float))
    return next((text for text in texts if text.strip()), UNTITLED)


def _join_names(names: list[str]) -> str:
    rest = len(names) - FACTS
    return ", ".join(names[:FACTS]) + (f" and {rest} more" if rest > 0 else "")


def _is_ours(name: str) -> bool:
    """Return whether people could take this name of a field for that of a fact of our own."""
    return fold_name(to_single_line(_format_name(name)).strip(" .:")) in _OWN_NAMES


def _format_name(name: str) -> str:
    return name.replace("_", " ").capitalize()
