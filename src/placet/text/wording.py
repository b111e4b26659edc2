"""Translatable messages: English text that keeps its template and parts.

For code and API callers a message is a `str`. A page translates the template and fills in the parts again.
"""

from collections.abc import Mapping
from typing import Any, Self


class Amount(int):
    """A number that is formatted with thousands separators, in the language of the page."""

    def __format__(self, spec: str) -> str:
        return int(self).__format__(spec or ",")


class Message(str):
    """An English sentence with its template and parts."""

    template: str
    plural: str | None
    parts: Mapping[str, Any]

    def __new__(cls, template: str, plural: str | None = None, /, **parts: Any) -> Self:
        """Format the message; `plural` is the template for every `count` except 1."""
        chosen = plural if plural is not None and parts.get("count") != 1 else template
        message = super().__new__(cls, chosen.format(**parts) if parts else chosen)
        message.template, message.plural, message.parts = template, plural, parts
        return message


class Title(str):
    """A name that a service wrote; a page shows it unchanged, without translating it."""

    __slots__ = ()


def message(template: str, /, **parts: Any) -> Message:
    """Return a translatable sentence; the template names every part in braces."""
    return Message(template, **parts)


def plural_message(one: str, many: str, /, *, count: int, **parts: Any) -> Message:
    """Return a translatable sentence that depends on a number; both templates may name `{count}`."""
    return Message(one, many, count=count, **parts)


def phrase(text: str) -> str:
    """Return the text. Marks a constant for translation, so that it is extracted into the catalogs."""
    return text


def phrases(one: str, many: str) -> tuple[str, str]:
    """Return both texts. Marks a constant pair that depends on a number for translation."""
    return one, many
