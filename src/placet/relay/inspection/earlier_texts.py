"""Remember how the earlier texts of a task end, because an agent may split a text over several replies."""

from collections import OrderedDict
from collections.abc import Hashable

MAX_TASKS = 10_000
TAIL_LENGTH = 500
"""The number of characters that are remembered of each task."""


class EarlierTexts:
    """The ends of the texts that were forwarded for unfinished tasks, in memory."""

    def __init__(self) -> None:
        self._tails: OrderedDict[Hashable, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tails)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tails

    def get(self, key: Hashable) -> str:
        """Return the end of the earlier texts, or an empty string."""
        return self._tails.get(key, "")

    def remember(self, key: Hashable, text: str) -> None:
        """Remember a forwarded text. Replies often repeat the earlier ones, which are then replaced."""
        earlier = self._tails.pop(key, "")
        tail = (text if earlier in text else earlier + text)[-TAIL_LENGTH:]
        if tail:
            self._tails[key] = tail
        while len(self._tails) > MAX_TASKS:
            self._tails.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Forget a task that has ended."""
        self._tails.pop(key, None)
