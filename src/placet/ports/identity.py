"""The principal of a request. A service that embeds Placet can authenticate requests itself."""

from msgspec import Struct

CASES_READ = "cases:read"
"""Reading by the API: cases, grants, deliveries, and what the relay stores."""
CASES_WRITE = "cases:write"
"""Changing by the API: opening and withdrawing cases, calling agents, deciding and configuring the relay."""
CASES_ANSWER = "cases:answer"
"""Answering cases that are shown on a page of the service's own, for people whom the service knows."""
INBOX = "inbox"
"""The inbox with the cases of the key's principal."""
INBOX_ALL = "inbox:all"
"""The inbox with the cases of all principals."""
ALL_SCOPES = (CASES_WRITE, CASES_READ, CASES_ANSWER, INBOX, INBOX_ALL, "admin")


class Principal(Struct, frozen=True, kw_only=True):
    """A client that may open and follow cases. The name None is the anonymous principal of a demo."""

    name: str | None
    scopes: frozenset[str] = frozenset({"cases:write", "cases:read"})
