"""What a page's form sends: pairs of strings, with the line ends that browsers make of every newline."""

from collections.abc import Sequence

Pairs = Sequence[tuple[str, str]]


def last(pairs: Pairs, name: str) -> str | None:
    """The last value sent under `name`."""
    return next((plain_lines(value) for key, value in reversed(pairs) if key == name), None)


def every(pairs: Pairs, name: str) -> list[str]:
    """All values sent under `name`, in order: ids, kept as they are."""
    return [value for key, value in pairs if key == name]


def under(pairs: Pairs, prefix: str) -> dict[str, str]:
    """The values of all names that start with `prefix`, without it; the last of each counts."""
    return {key.removeprefix(prefix): plain_lines(value) for key, value in pairs if key.startswith(prefix)}


def plain_lines(text: str) -> str:
    """The text with newlines as one character, whatever made them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def survives_a_form(text: str) -> bool:
    """Whether a person can edit this in a page and leave the rest untouched: nothing in it is invisible."""
    return all(character.isprintable() or character in "\n\r\t\u00a0" for character in text)


def shown(value: object) -> str:
    """A scalar as the page's form holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain_lines(str(value))
