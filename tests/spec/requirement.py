"""One requirement of the specification, in our own words, with what shows that we keep it."""

from typing import Literal

from msgspec import Struct

Level = Literal[
    "MUST",
    "MUST NOT",
    "SHOULD",
    "SHOULD NOT",
    "MAY",
    "REQUIRED",
    "RECOMMENDED",
    "OPTIONAL",
    "STATED",  # said as a fact, without a keyword
]


class Requirement(Struct, frozen=True, kw_only=True):
    """A line of the ledger: shown by tests, somebody else's duty, or kept differently for a reason.

    `divergence` says what we do instead, and by which ruling; its tests show that.
    """

    id: str
    section: str
    level: Level
    text: str
    tests: tuple[str, ...] = ()
    not_ours: str | None = None
    divergence: str | None = None
