"""The language of a page: our words, moments and numbers as its reader knows them."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from markupsafe import escape

from assent.pages import times
from assent.protocol.wording import Message

RIGHT_TO_LEFT = frozenset({"ar"})


class Language:
    """Everything a page says in one language."""

    def __init__(self, code: str = "en", texts: Mapping[str, str] | None = None) -> None:
        self.code = code
        self.direction = "rtl" if code in RIGHT_TO_LEFT else "ltr"
        self._texts = texts or {}

    def t(self, text: str, /, **parts: Any) -> str:
        """Our text with its parts filled in, every part escaped unless it is markup already."""
        found = self._texts.get(text, text)
        return escape(found).format(**parts) if parts else found

    def tn(self, one: str, many: str, count: int, **parts: Any) -> str:
        """The text for this count; every form may name `{count}`."""
        return self.t(one if count == 1 else many, count=count, **parts)

    def say(self, message: str) -> str:
        """A message in this language, if it can be translated; anything else as it is."""
        if not isinstance(message, Message):
            return message
        template = self._texts.get(message.template, str(message))
        return template.format(**message.parts) if message.parts else template

    def relative(self, moment: datetime, now: datetime) -> str:
        """How far away a moment is: "in 2 hours"."""
        return times.relative(self, moment, now)

    def calendar(self, moment: datetime, now: datetime) -> str:
        """Which moment it is: "today 18:00 UTC"."""
        return times.calendar(self, moment, now)

    def exact(self, moment: datetime) -> str:
        """A moment in full."""
        return times.exact(self, moment)

    def day(self, moment: date) -> str:
        """A day in words."""
        return times.day(self, moment)

    def number(self, value: float) -> str:
        """A number as it is written here; its sign and digits are never lost."""
        return str(value)


ENGLISH = Language()
