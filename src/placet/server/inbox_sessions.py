"""Inbox sessions: a key is exchanged for a short-lived signed cookie and checked again on every request.

A session exists only in its cookie: the key's digest and an expiry, signed with the server's secret. When the
key expires or is revoked, its sessions end, and so do those of pages opened from the inbox.
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
from placet.server.sessions import LAST_FOR, CaseSession, is_same, sign

COOKIE = "placet_inbox"
FROM_INBOX = "inbox."
"""The prefix of the cookie of a case that was opened from the inbox."""
log = logging.getLogger("placet.inbox")
HeldOwner = Callable[[Principal], Awaitable[str | None]]


class InboxVisitor(Struct, frozen=True, kw_only=True):
    """A person who is signed in to the inbox."""

    name: str
    scope: InboxScope
    session: str
    csrf: str


class InboxSessions:
    """Signs people in with their keys, and admits them from the inbox to the cases they may decide."""

    def __init__(
        self, *, keys: KeyStore, secret: str, clock: Callable[[], datetime], held_owner: HeldOwner
    ) -> None:
        """`held_owner` returns the owner of the held messages that a principal may decide."""
        self._keys = keys
        self._secret = bytes.fromhex(secret)
        self._now = clock
        self._held_owner = held_owner

    async def sign_in(self, key: str) -> str:
        """Return the cookie's value.

        Raises InvalidToken for an unknown or expired key, and NotPermitted for a key without an inbox scope.
        """
        digest = token_digest(key)
        name = require_inbox(await self._principal(digest))
        log.info("inbox_signed_in key=%s", name)
        session = f"{digest}.{int((self._now() + LAST_FOR).timestamp())}"
        return f"{session}.{self._sign('session', session)}"

    async def find_visitor(self, cookie: str | None) -> InboxVisitor | None:
        """Return who is signed in; None if the cookie or its key is not valid any more."""
        session, _, mac = (cookie or "").rpartition(".")
        if not is_same(mac, self._sign("session", session)):
            return None
        digest, _, ends = session.partition(".")
        if self._now() >= datetime.fromtimestamp(int(ends), UTC):
            return None
        try:
            principal = await self._principal(digest)
            scope = sight_of(principal, await self._held_owner(principal))
        except (InvalidToken, NotPermitted):
            return None
        return InboxVisitor(name=scope.own, scope=scope, session=session, csrf=self._sign("csrf", session))

    def is_valid_csrf(self, visitor: InboxVisitor, presented: str) -> bool:
        """Whether a form came from a page shown to this visitor."""
        return is_same(presented, visitor.csrf)

    def admit(self, visitor: InboxVisitor, case_id: str) -> str:
        """Return the cookie for the page of a case; it is valid only together with the inbox cookie."""
        return f"{FROM_INBOX}{self._sign('case', case_id, visitor.session)}"

    async def find_case_session(self, case: Case, admitted: str, cookie: str | None) -> CaseSession | None:
        """Return the session of a case opened from the inbox, or None if its visitor may not see the case."""
        visitor = await self.find_visitor(cookie)
        if visitor is None or not visitor.scope.sees(case.owner):
            return None
        if not is_same(admitted, self.admit(visitor, case.id)):
            return None
        csrf = self._sign("case csrf", case.id, visitor.session)
        return CaseSession(case_id=case.id, link="", csrf=csrf, key_name=visitor.name)

    async def _principal(self, digest: str) -> Principal:
        return principal_of(await self._keys.get_api_key(digest), self._now())

    def _sign(self, purpose: str, *parts: str) -> str:
        return sign(self._secret, f"inbox {purpose}", *parts)
