"""Case sessions: a review link is exchanged once for a short, signed cookie, and the token leaves the URL.

A session is nothing but its cookie: case, link and end, under the server's secret. Nothing is written when a
link is opened (ruling 4), and a link that is withdrawn ends its sessions.
"""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from placet.cases.case import Case

COOKIE = "placet_case"
LAST_FOR = timedelta(hours=12)


class CaseSession(Struct, frozen=True, kw_only=True):
    """One person at one case's page."""

    case_id: str
    link: str
    csrf: str
    key_name: str | None = None
    """Whose key opened the case from the inbox; then there is no link."""

    @property
    def actor(self) -> str:
        """How the log names whoever holds this link, or the key."""
        return f"link:{self.link[:8]}" if self.key_name is None else f"key:{self.key_name}"


class CaseSessions:
    """Makes and reads session cookies."""

    def __init__(self, secret: str) -> None:
        self._key = bytes.fromhex(secret)

    def begin(self, case_id: str, link: str, now: datetime) -> str:
        """The cookie's value for the holder of this link."""
        ends = int((now + LAST_FOR).timestamp())
        return f"{link[:32]}.{ends}.{self._mac('session', case_id, link[:32], str(ends))}"

    def read(self, case: Case, cookie: str | None, now: datetime) -> CaseSession | None:
        """The session, if the cookie is ours, of this case, not over, and its link still holds."""
        parts = (cookie or "").split(".")
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit() and len(parts[1]) < 13):
            return None
        link, ends, mac = parts
        if not same(mac, self._mac("session", case.id, link, ends)):
            return None
        held = next((digest for digest in case.review_digests if digest[:32] == link), None)
        if held is None or now >= datetime.fromtimestamp(int(ends), UTC):
            return None
        return CaseSession(case_id=case.id, link=held, csrf=self._mac("csrf", case.id, link, ends))

    def csrf_holds(self, session: CaseSession, presented: str) -> bool:
        """Whether a form came from a page we showed in this session."""
        return same(presented, session.csrf)

    def _mac(self, *parts: str) -> str:
        return seal(self._key, *parts)


def seal(key: bytes, *parts: str) -> str:
    """A mark on these parts that only this server can make."""
    return hmac.new(key, _bytes("\n".join(parts)), hashlib.sha256).hexdigest()


def same(presented: str, expected: str) -> bool:
    """Whether two marks are equal, told in constant time."""
    return hmac.compare_digest(_bytes(presented), _bytes(expected))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
