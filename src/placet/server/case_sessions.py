"""Case sessions: a review link is exchanged for a short-lived signed cookie, and the token leaves the URL.

A session exists only in its cookie: case, link and expiry, signed with the server's secret. Opening a link
writes nothing (ruling 4), and revoking a link ends its sessions.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from placet.cases.case import Case
from placet.server.keyed_digests import is_same, sign

SESSION_LIFETIME = timedelta(hours=12)
TICKET_LIFETIME = timedelta(minutes=10)
Purpose = Literal["session", "frame", "ticket"]
LIFETIMES: Mapping[Purpose, timedelta] = {
    "session": SESSION_LIFETIME,
    "frame": SESSION_LIFETIME,
    "ticket": TICKET_LIFETIME,
}
"""What a signed value is for: the page, the page in a frame, the way from the frame to the page."""


class CaseSession(Struct, frozen=True, kw_only=True):
    """A reviewer's session on the page of one case."""

    case_id: str
    link: str
    csrf: str
    key_name: str | None = None
    """The name of the key, if the case was opened from the inbox; then the session has no link."""
    is_framed: bool = False
    """Whether the page is in a frame of another site."""

    @property
    def actor(self) -> str:
        """The name of this link or key in the event log."""
        return f"link:{self.link[:8]}" if self.key_name is None else f"key:{self.key_name}"


class CaseSessions:
    """Creates and reads session cookies."""

    def __init__(self, secret: str) -> None:
        self._key = bytes.fromhex(secret)

    def begin(self, case_id: str, link: str, now: datetime, purpose: Purpose = "session") -> str:
        """Return the value of the cookie, or of the ticket out of a frame, for this link."""
        ends = int((now + LIFETIMES[purpose]).timestamp())
        return f"{link[:32]}.{ends}.{self._compute_mac(purpose, case_id, link[:32], str(ends))}"

    def read(
        self, case: Case, cookie: str | None, now: datetime, purpose: Purpose = "session"
    ) -> CaseSession | None:
        """Return the session; None if the value is invalid, expired, for something else, or revoked."""
        parts = (cookie or "").split(".")
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit() and len(parts[1]) < 13):
            return None
        link, ends, mac = parts
        if not is_same(mac, self._compute_mac(purpose, case.id, link, ends)):
            return None
        held = next((digest for digest in case.review_digests if digest[:32] == link), None)
        if held is None or now >= datetime.fromtimestamp(int(ends), UTC):
            return None
        is_framed = purpose == "frame"
        csrf = self._compute_mac("frame-csrf" if is_framed else "csrf", case.id, link, ends)
        return CaseSession(case_id=case.id, link=held, csrf=csrf, is_framed=is_framed)

    def _compute_mac(self, *parts: str) -> str:
        return sign(self._key, *parts)
