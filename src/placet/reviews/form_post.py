"""The result of one POST of a page's form."""

from typing import Any

from msgspec import Struct

from placet.protocol.poll import Progress

NEXT, BACK = "x-next", "x-back"


class PostResult(Struct, frozen=True, kw_only=True):
    """The values to save, the step to show, and its problems. If `ready`, the values are the answer.

    `asked` are the keys of the questions that the step shows for these values. `action` and `data` are the
    answer if it differs from the submitted action and values.
    """

    values: dict[str, Any]
    ready: bool
    step: int = 0
    problems: dict[str, str] = {}
    more_asked: bool = False
    progress: Progress | None = None
    asked: tuple[str, ...] = ()
    action: str | None = None
    data: dict[str, Any] | None = None
