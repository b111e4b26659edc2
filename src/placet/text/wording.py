"""Messages that can be said in another language: plain English text that remembers how it was made.

To code and to callers of the API a message is a `str`. A page translates the template and fills in the parts
again, so that nobody has to read English to learn what to type.
"""

from collections.abc import Mapping
from typing import Any, Self


class Amount(int):
    """A number with its thousands apart, in English as in any other language."""

    def __format__(self, spec: str) -> str:
        return int(self).__format__(spec or ",")


class Message(str):
    """An English sentence with its template and the parts that were filled in."""

    template: str
    plural: str | None
    parts: Mapping[str, Any]

    def __new__(cls, template: str, plural: str | None = None, /, **parts: Any) -> Self:
        """`plural` is the template for every `count` but one."""
        chosen = plural if plural is not None and parts.get("count") != 1 else template
        message = super().__new__(cls, chosen.format(**parts) if parts else chosen)
        message.template, message.plural, message.parts = template, plural, parts
        return message


class Title(str):
    """A name that somebody wrote for people to read; a page shows it as it is."""

    __slots__ = ()


def message(template: str, /, **parts: Any) -> Message:
    """A sentence for a person; every part is named in braces in the template."""
    return Message(template, **parts)


def plural_message(one: str, many: str, /, *, count: int, **parts: Any) -> Message:
    """A sentence that depends on a number; both templates may name `{count}`."""
    return Message(one, many, count=count, **parts)


def phrase(text: str) -> str:
    """The text itself: marks a constant that a page will say, so that the catalogs get to know it."""
    return text


def phrases(one: str, many: str) -> tuple[str, str]:
    """The two texts themselves: marks a constant pair that depends on a number."""
    return one, many
