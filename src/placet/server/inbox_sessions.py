"""Inbox sessions: a key is exchanged for a short signed cookie, and checked again with every request.

A session is nothing but its cookie: the key's digest and an end, under the server's secret. Whatever ends the
key ends its sessions, and the pages that were opened from the inbox with them.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from msgspec import Struct

from placet.cases.case import Case
from placet.cases.tokens import token_digest
from placet.desk.inbox_scope import InboxScope, require_inbox, sight_of
from placet.errors import InvalidToken, NotPermitted
from placet.ports.identity import Principal
from placet.ports.key_store import KeyStore
from placet.server.api_key_auth import principal_of
from placet.server.sessions import LAST_FOR, CaseSession, same, seal

COOKIE = "placet_inbox"
FROM_INBOX = "inbox."
"""How the cookie of a case begins that was opened from the inbox."""
log = logging.getLogger("placet.inbox")
Holds = Callable[[Principal], Awaitable[str | None]]


class InboxVisitor(Struct, frozen=True, kw_only=True):
    """Somebody who has signed in."""

    name: str
    sight: InboxScope
    session: str
    csrf: str


class InboxSessions:
    """Lets people in by their keys, and from the inbox on to the cases they may decide."""

    def __init__(self, *, keys: KeyStore, secret: str, clock: Callable[[], datetime], holds: Holds) -> None:
        """`holds` tells whose held messages a principal may decide."""
        self._keys = keys
        self._secret = bytes.fromhex(secret)
        self._now = clock
        self._holds = holds

    async def sign_in(self, key: str) -> str:
        """The cookie's value; raises InvalidToken for a key that has ended, NotPermitted for a program's."""
        digest = token_digest(key)
        name = require_inbox(await self._principal(digest))
        log.info("%s signed in to the inbox", name)
        session = f"{digest}.{int((self._now() + LAST_FOR).timestamp())}"
        return f"{session}.{self._seal('session', session)}"

    async def visitor(self, cookie: str | None) -> InboxVisitor | None:
        """Who this is, if the cookie is ours and not over, and its key still opens the inbox."""
        session, _, mac = (cookie or "").rpartition(".")
        if not same(mac, self._seal("session", session)):
            return None
        digest, _, ends = session.partition(".")
        if self._now() >= datetime.fromtimestamp(int(ends), UTC):
            return None
        try:
            principal = await self._principal(digest)
            sight = sight_of(principal, await self._holds(principal))
        except (InvalidToken, NotPermitted):
            return None
        return InboxVisitor(name=sight.own, sight=sight, session=session, csrf=self._seal("csrf", session))

    def csrf_holds(self, visitor: InboxVisitor, presented: str) -> bool:
        """Whether a form came from a page we showed to this visitor."""
        return same(presented, visitor.csrf)

    def admit(self, visitor: InboxVisitor, case_id: str) -> str:
        """The cookie for the page of a case; it holds only together with the visitor's own."""
        return f"{FROM_INBOX}{self._seal('case', case_id, visitor.session)}"

    async def case_session(self, case: Case, admitted: str, cookie: str | None) -> CaseSession | None:
        """The session at a case that was opened from the inbox, while its visitor may see the case."""
        visitor = await self.visitor(cookie)
        if visitor is None or not visitor.sight.sees(case.owner):
            return None
        if not same(admitted, self.admit(visitor, case.id)):
            return None
        csrf = self._seal("case csrf", case.id, visitor.session)
        return CaseSession(case_id=case.id, link="", csrf=csrf, key_name=visitor.name)

    async def _principal(self, digest: str) -> Principal:
        return principal_of(await self._keys.get_api_key(digest), self._now())

    def _seal(self, purpose: str, *parts: str) -> str:
        return seal(self._secret, f"inbox {purpose}", *parts)
