"""One post of a page's form: where it leaves the person, and whether it is an answer yet."""

from typing import Any

from msgspec import Struct

from placet.protocol.poll import Progress

NEXT, BACK = "x-next", "x-back"


class PostResult(Struct, frozen=True, kw_only=True):
    """What to keep, which step to show, and what to say there; once `ready`, the values are the answer.

    `asked` are the questions on that step that these values leave open to the person. Where what stands in
    the page is not the answer itself, `action` and `data` say what it comes to.
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
