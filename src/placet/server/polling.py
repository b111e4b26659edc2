"""GET …/status: a case's state, with ETag, Retry-After and a rate limit (ruling 16)."""

from collections.abc import Mapping

import msgspec

from placet.cases.case import Case
from placet.cases.wire import build_poll_response
from placet.desk.access import require_scope
from placet.desk.review_desk import ReviewDesk
from placet.errors import RateLimited
from placet.http.asgi import (
    NO_STORE,
    Header,
    RawReply,
    Scope,
    build_json_reply,
    read_header,
    read_text_header,
)
from placet.http.compression import MIN_COMPRESSED_BYTES, accepts_gzip, compress
from placet.http.conditional import find_match
from placet.http.error_replies import build_error_reply
from placet.ports.identity import Principal
from placet.protocol.poll import Status
from placet.server.poll_limiter import PollLimiter

RETRY_AFTER: Mapping[Status, int] = {Status.PENDING: 30, Status.OPENED: 10, Status.IN_PROGRESS: 5}
# New cases are often answered soon: Retry-After grows with the age up to the maximum of the status.
SOONEST, PATIENCE = 2, 10
VARY: Header = (b"vary", b"Accept-Encoding")
GZIP: Header = (b"content-encoding", b"gzip")

_encode = msgspec.json.Encoder().encode


class StatusPoll:
    """Handles polls."""

    def __init__(self, desk: ReviewDesk, limiter: PollLimiter) -> None:
        self._desk = desk
        self._limiter = limiter

    async def reply(self, scope: Scope, case: Case, principal: Principal) -> RawReply:
        """Return 200 with the state, or 304 if the ETag matches; both 304s and closed cases are unlimited."""
        etag = b'"%d"' % case.version
        asked = read_header(scope, b"if-none-match")
        if asked is not None:
            matched = find_match(asked, etag, b'"%d-gzip"' % case.version)
            if matched is not None:
                # RFC 9110, 8.6: a 304 must not send another length than the 200, so it sends none
                left = self._limiter.count_remaining(principal.name, case.id)
                kept = [
                    (b"etag", matched),
                    NO_STORE,
                    VARY,
                    *self._describe_budget(left),
                    *self._describe_pace(case),
                ]
                return RawReply(304, kept, b"")
        try:
            left = self._spend(case, principal)
        except RateLimited as error:
            refused = build_error_reply(error)
            return refused._replace(headers=[*refused.headers, *self._describe_budget(0)])
        body = _encode(build_poll_response(case))
        more: tuple[Header, ...] = (VARY, *self._describe_budget(left), *self._describe_pace(case))
        if len(body) >= MIN_COMPRESSED_BYTES and accepts_gzip(read_text_header(scope, b"accept-encoding")):
            # RFC 9110, 8.8.3.3: each encoding has a strong ETag of its own
            body, etag, more = await compress(body), b'"%d-gzip"' % case.version, (GZIP, *more)
        reply = build_json_reply(200, body, (b"etag", etag), *more)
        return reply if scope["method"] != "HEAD" else reply._replace(body=b"")

    async def get_current_case(self, case_id: str, principal: Principal) -> Case:
        """Return the principal's case in its current state; raise NotPermitted without the read scope."""
        require_reading(principal)
        return await self._desk.get_current_case(case_id, principal)

    def _spend(self, case: Case, principal: Principal) -> int | None:
        """Return how many polls remain after this one; a closed case takes none."""
        if case.live:
            return self._limiter.spend(principal.name, case.id)
        return self._limiter.count_remaining(principal.name, case.id)

    def _describe_budget(self, remaining: int | None) -> tuple[Header, ...]:
        if remaining is None or not self._limiter.per_minute:
            return ()
        limit = (b"x-ratelimit-limit", b"%d" % self._limiter.per_minute)
        return limit, (b"x-ratelimit-remaining", b"%d" % remaining)

    def _describe_pace(self, case: Case) -> tuple[Header, ...]:
        if not case.live:
            return ()
        now = self._desk.now()
        left = int((case.expires_at - now).total_seconds()) + 1
        age = int((now - case.created_at).total_seconds())
        pace = min(RETRY_AFTER[case.status], SOONEST + age // PATIENCE, left)
        return ((b"retry-after", b"%d" % max(1, pace)),)


def require_reading(principal: Principal) -> None:
    """Raise NotPermitted unless the principal may read cases."""
    if principal.name is not None:  # anonymous callers have no scopes and may poll anonymous cases
        require_scope(principal, "cases:read")
