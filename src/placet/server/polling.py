"""GET …/status: a case's state, with an ETag, a pace and a rate limit (ruling 16)."""

from collections.abc import Mapping

import msgspec

from placet.cases.case import Case
from placet.cases.wire import poll_response
from placet.desk.access import require_scope
from placet.desk.review_desk import ReviewDesk
from placet.http.asgi import NO_STORE, Header, RawReply, Scope, json_reply, read_header
from placet.http.conditional import none_match
from placet.ports.identity import Principal
from placet.protocol.poll import Status
from placet.server.rate import PollLimiter

RETRY_AFTER: Mapping[Status, int] = {Status.PENDING: 30, Status.OPENED: 10, Status.IN_PROGRESS: 5}
# A fresh question is often answered at once: the wait grows with its age up to what its state suggests.
SOONEST, PATIENCE = 2, 10

_encode = msgspec.json.Encoder().encode


class StatusPoll:
    """Answers polls."""

    def __init__(self, desk: ReviewDesk, limiter: PollLimiter) -> None:
        self._desk = desk
        self._limiter = limiter

    async def __call__(self, scope: Scope, case_id: str, principal: Principal) -> RawReply:
        """200 with the state, or 304 if the caller has it already; a 304 and a closed case cost no budget."""
        case = await self.current(case_id, principal)
        etag = b'"%d"' % case.version
        asked = read_header(scope, b"if-none-match")
        if asked is not None and none_match(asked, etag):
            # RFC 9110, 8.6: a 304 would have to give the length of the 200, so it gives none
            return RawReply(304, [(b"etag", etag), NO_STORE, *self._pace(case)], b"")
        budget = self._budget(principal, case_id) if case.live else ()
        body = _encode(poll_response(case))
        reply = json_reply(200, body, (b"etag", etag), *budget, *self._pace(case))
        return reply if scope["method"] != "HEAD" else reply._replace(body=b"")

    async def current(self, case_id: str, principal: Principal) -> Case:
        """The owner's case as it stands now, for someone who may read."""
        require_reading(principal)
        return await self._desk.current(case_id, principal)

    def _budget(self, principal: Principal, case_id: str) -> tuple[Header, ...]:
        remaining = self._limiter.spend(principal.name, case_id)
        if remaining is None:
            return ()
        limit = (b"x-ratelimit-limit", b"%d" % self._limiter.per_minute)
        return limit, (b"x-ratelimit-remaining", b"%d" % remaining)

    def _pace(self, case: Case) -> tuple[Header, ...]:
        if not case.live:
            return ()
        now = self._desk.now()
        left = int((case.expires_at - now).total_seconds()) + 1
        age = int((now - case.created_at).total_seconds())
        pace = min(RETRY_AFTER[case.status], SOONEST + age // PATIENCE, left)
        return ((b"retry-after", b"%d" % max(1, pace)),)


def require_reading(principal: Principal) -> None:
    """Raises NotPermitted unless the principal may follow cases."""
    if principal.name is not None:  # nobody has no scopes, and may follow what nobody opened
        require_scope(principal, "cases:read")
