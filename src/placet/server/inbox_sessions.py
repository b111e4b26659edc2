"""Inbox sessions: a key is exchanged for a short-lived random token, and both are checked on every request.

The token is in a cookie, its digest in the store. Signing out deletes it there, so a copy of the cookie does
not work afterwards. When the key expires or is revoked, its sessions end too. The pages opened from the inbox
depend on its session and end with it.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from placet.cases.case import Case
from placet.cases.tokens import digest_token
from placet.desk import random_values
from placet.desk.inbox_scope import InboxScope, build_inbox_scope, require_inbox
from placet.errors import InvalidToken, NotPermitted
from placet.ports.identity import Principal
from placet.ports.key_store import ApiKey, KeyStore, StoredSession
from placet.server.api_key_auth import get_principal
from placet.server.case_sessions import SESSION_LIFETIME, CaseSession
from placet.server.keyed_digests import is_same, sign
from placet.server.limited_log import LimitedLog

FAILURES_LOGGED_PER_MINUTE = 30
TOKEN_LENGTH = 43
FROM_INBOX = "inbox."
"""The prefix of the cookie of a case that was opened from the inbox."""
log = logging.getLogger("placet.inbox")
HeldOwner = Callable[[Principal], Awaitable[str | None]]


class InboxVisitor(Struct, frozen=True, kw_only=True):
    """A person who is signed in to the inbox."""

    name: str
    scope: InboxScope
    session: str
    """The digest of the session's token."""
    csrf: str


class InboxSessions:
    """Signs people in with their keys, and admits them from the inbox to the cases they may decide."""

    def __init__(
        self,
        *,
        keys: KeyStore,
        secret: str,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        held_owner: HeldOwner,
    ) -> None:
        """`held_owner` returns the owner of the held messages that a principal may decide."""
        self._keys = keys
        self._secret = bytes.fromhex(secret)
        self._now = clock
        self._held_owner = held_owner
        self._failures = LimitedLog(log, per_minute=FAILURES_LOGGED_PER_MINUTE, monotonic=monotonic)

    async def sign_in(self, key: str, *, address: str, previous: str | None = None) -> str:
        """Return the cookie's value; end the session of the `previous` cookie.

        Raises InvalidToken for an unknown or expired key, and NotPermitted for a key without an inbox scope.
        Failures are logged with the client's address, and with the key's name if there is such a key.
        """
        digest = digest_token(key)
        found = await self._keys.get_api_key(digest)
        try:
            name = require_inbox(get_principal(found, self._now()))
        except (InvalidToken, NotPermitted):
            self.log_failure(self._describe_failure(found, key), address, found)
            raise
        token, now = random_values.generate_token(), self._now()
        session = StoredSession(digest=digest_token(token), key_digest=digest, ends_at=now + SESSION_LIFETIME)
        await self._keys.add_inbox_session(session, now=now)
        if previous is not None and len(previous) == TOKEN_LENGTH:
            await self._keys.delete_inbox_session(digest_token(previous))
        log.info("inbox_signed_in key=%s", name)
        return token

    def log_failure(self, reason: str, address: str, key: ApiKey | None = None) -> None:
        """Log a failed attempt to sign in, without the key that was entered."""
        whose = "" if key is None else f" key={key.name}"
        self._failures.warning(f"inbox_sign_in_failed reason={reason} address={address}{whose}")

    def _describe_failure(self, found: ApiKey | None, entered: str) -> str:
        if found is None:
            return "unknown_key" if entered else "no_key"
        if found.revoked_at is not None:
            return "revoked_key"
        return "no_inbox_scope" if found.is_valid(self._now()) else "expired_key"

    async def sign_out(self, visitor: InboxVisitor) -> None:
        """End the visitor's session, in every copy of its cookie."""
        await self._keys.delete_inbox_session(visitor.session)
        log.info("inbox_signed_out key=%s", visitor.name)

    async def find_visitor(self, cookie: str | None) -> InboxVisitor | None:
        """Return who is signed in; None if the session has ended or its key is not valid any more."""
        if cookie is None or len(cookie) != TOKEN_LENGTH:
            return None
        session = await self._keys.get_inbox_session(digest_token(cookie))
        if session is None or self._now() >= session.ends_at:
            return None
        try:
            principal = get_principal(await self._keys.get_api_key(session.key_digest), self._now())
            scope = build_inbox_scope(principal, await self._held_owner(principal))
        except (InvalidToken, NotPermitted):
            return None
        return InboxVisitor(
            name=scope.own,
            scope=scope,
            session=session.digest,
            csrf=self._sign("csrf", session.digest),
        )

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

    def _sign(self, purpose: str, *parts: str) -> str:
        return sign(self._secret, f"inbox {purpose}", *parts)
