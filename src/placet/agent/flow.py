"""The state machine that follows one case: a driver asks for the next step, performs it and reports back.

It does no I/O and reads no clock, so that the async agent, the sync agent and tests behave alike. Events and
callbacks are only hints; the status is always read from the poll URL.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from placet.agent.discovery import UNKNOWN_SERVICE, ServiceCapabilities, choose_transport
from placet.agent.outcomes import Cancelled, Decided, Expired, Outcome
from placet.agent.poll_interval import MAX_INTERVAL_S, PollInterval, compute_clock_lead
from placet.agent.service_responses import FollowedCase, PollResult, read_poll_result, read_reminder
from placet.errors import CaseLost, CredentialsRefused, StillWaiting, UnreadableAnswer
from placet.protocol import stream
from placet.protocol.poll import Progress
from placet.text.truncation import to_single_line, truncate

EXPIRY_GRACE = timedelta(minutes=15)  # how long a service may take to notice that a case has expired
SAME_REMINDER_WITHIN = timedelta(minutes=5)
RESPONSE_TIMEOUT_S, MIN_RESPONSE_TIMEOUT_S = 30.0, 5.0
MAX_UNREADABLE_ANSWERS = 3
MAX_STREAM_FAILURES = 3
POLL_INTERVAL_WITH_STREAM_S = 30.0  # a stream may go silent without ending, so poll anyway
MIN_STREAM_DURATION = timedelta(seconds=5)  # a stream that ends sooner counts as failed
MIN_POLL_INTERVAL = timedelta(seconds=0.5)  # the shortest time between two polls
RETRIED_REFUSALS = frozenset({408, 421, 423, 425, 429})
PERMANENT_FAILURES = frozenset({501, 505})
MAX_LOCATION_LENGTH = 200


class Poll(Struct, frozen=True, kw_only=True):
    """Request the poll URL now; a response that takes longer than `within_s` is a failure."""

    url: str
    headers: dict[str, str]
    within_s: float = RESPONSE_TIMEOUT_S


class SleepUntil(Struct, frozen=True, kw_only=True):
    """Do nothing until then or until an event or a callback arrives; open the stream if one is named."""

    until: datetime
    listen: str | None = None
    last_event_id: str | None = None


class Done(Struct, frozen=True, kw_only=True):
    """The case has ended."""

    outcome: Outcome


Step = Poll | SleepUntil | Done
NoticeName = Literal["requested", "opened", "in_progress", "reminder", "trouble", "ended", "lost"]


class Notice(Struct, frozen=True, kw_only=True):
    """Something to report to the user of the agent, or a link to send."""

    name: NoticeName
    case: FollowedCase
    progress: Progress | None = None
    text: str | None = None
    outcome: Outcome | None = None
    reminder_at: datetime | None = None
    """The time of the reminder; each is sent once, even if several processes follow the case."""
    round: int = 1
    """The round of this case in its chain, as far as this agent has seen the chain."""


class Flow:
    """The state of following one case."""

    def __init__(
        self,
        case: FollowedCase,
        *,
        now: datetime,
        dice: Callable[[], float],
        interval_s: float | None = None,
        give_up_at: datetime | None = None,
        streams: bool = True,
        service: ServiceCapabilities = UNKNOWN_SERVICE,
        takes_callbacks: bool = False,
        asks_first: bool = False,
        reminded_up_to: datetime | None = None,
    ) -> None:
        self.case = case
        self.last_poll: PollResult | None = None
        transport = choose_transport(case, service, takes_callbacks=takes_callbacks)
        self._pace = PollInterval(
            interval_s=interval_s,
            min_interval_s=service.min_interval_s or 0.0,
            max_interval_s=service.recommended_interval_s or MAX_INTERVAL_S,
            dice=dice,
        )
        self._give_up_at = give_up_at
        # A resumed case is polled at least once, even if there is no time left to wait.
        self._must_ask = asks_first
        self._streams = streams and transport == "sse"
        self._awaits_callback = transport == "callback" and interval_s is None
        self._stream_failures = 0
        self._listening_since: datetime | None = None
        self._last_event_id: str | None = None
        self._etag: str | None = None
        self._poll_at = now
        self._asked_at = self._not_before = now
        self._hinted = False
        # An agent that resumes late, or whose clock is wrong, can still poll.
        self._lost_at = max(case.expires_at, now) + EXPIRY_GRACE
        self._ahead = timedelta(0)
        # After a resume, send the reminders that became due meanwhile; a stream repeats old ones.
        self._came_back = asks_first
        self._reminded_up_to = reminded_up_to
        since = max(case.created_at, reminded_up_to or case.created_at) if asks_first else now
        self._reminders = [at for at in case.reminders if at > since]
        self._reminded_at: datetime | None = None
        self._unreadable = 0
        self._outcome: Outcome | None = None
        self._notices: list[Notice] = []

    def step(self, now: datetime) -> Step:
        """Return the next step; raises StillWaiting when it is time to give up."""
        if self._outcome is not None:
            return Done(outcome=self._outcome)
        if self._give_up_at is not None and now >= self._give_up_at and not self._must_ask:
            raise StillWaiting("The person has not decided yet; the case is still open.")
        self._remind(now)
        if self._is_due(now):
            self._asked_at, self._not_before, self._hinted = now, now + MIN_POLL_INTERVAL, False
            self._must_ask = False
            return Poll(
                url=self.case.poll_url,
                headers={"If-None-Match": self._etag} if self._etag is not None else {},
                within_s=self._compute_response_timeout_s(now),
            )
        # Poll for what an ended stream may have missed before the next stream is opened.
        listen = self.case.events_url if self._streams and not self._hinted else None
        return SleepUntil(until=self._find_next_time(), listen=listen, last_event_id=self._last_event_id)

    def notices(self) -> list[Notice]:
        """Return the notices since the last call."""
        found, self._notices = self._notices, []
        return found

    # Reports of the driver

    def report_response(self, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        """Report a response of the poll URL; `headers` have lower-case names.

        Raises CaseLost if the service no longer knows the case, CredentialsRefused if other credentials might
        work, and UnreadableAnswer for any other answer that will not change.
        """
        ahead = compute_clock_lead(headers, now)
        self._ahead = self._ahead if ahead is None else ahead
        if status == 304:
            self._poll_at = self._schedule(self._pace.after_response(headers, now), now)
        elif status == 200:
            self._read(headers, body, now)
        elif status in (401, 403) and now - self._ahead < self.case.expires_at + EXPIRY_GRACE:
            raise CredentialsRefused(
                f"The service does not accept the agent's credentials for this case (HTTP {status})."
            )
        elif status in (401, 403, 404, 410):
            raise CaseLost(f"The service no longer reports the status of this case (HTTP {status}).")
        elif _is_temporary(status):
            self._handle_failure(f"The service answered HTTP {status}.", headers, now)
        elif 200 <= status < 300:
            self._count_unreadable(_refuse_status(status, headers, self.case.poll_url), headers, now)
        else:
            raise _refuse_status(status, headers, self.case.poll_url)

    def report_unreachable(self, reason: str, now: datetime) -> None:
        """Report that the poll URL could not be reached; raises CaseLost if retrying is useless."""
        self._handle_failure(reason, {}, now)

    def report_stream_open(self, now: datetime) -> None:
        """Report that the stream is open, which makes polls rarer."""
        self._listening_since = now
        self._poll_at = max(self._poll_at, now + timedelta(seconds=POLL_INTERVAL_WITH_STREAM_S))

    def report_event(self, name: str, event_id: str | None, now: datetime, data: str = "") -> None:
        """Report an event of the stream; it causes a poll, and its content is not used."""
        self._stream_failures = 0
        if event_id is not None:
            self._last_event_id = event_id[:200]
        if name == stream.REMINDER and not self._may_have_ended():
            self._reminders = [at for at in self._reminders if at > now + SAME_REMINDER_WITHIN]
            self._send_again(read_reminder(data), now)
        elif name in stream.STREAMED:
            self._hinted = True

    def report_stream_end(self, now: datetime, *, failed: bool) -> None:
        """Report that the stream ended or could not be opened; three failures in a row disable it."""
        since, self._listening_since = self._listening_since, None
        lasted = since is not None and now - since >= MIN_STREAM_DURATION
        self._stream_failures = 0 if lasted and not failed else self._stream_failures + 1
        self._streams = self._stream_failures < MAX_STREAM_FAILURES
        self._hinted = True

    def report_callback(self, now: datetime) -> None:
        """Report a callback, verified or not; it causes a poll."""
        self._hinted = True

    def _read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        try:
            poll_result = read_poll_result(body, case_id=self.case.case_id)
        except UnreadableAnswer as error:
            self._count_unreadable(error, headers, now)
            return
        self._unreadable = 0
        self._etag = _pick_sendable_etag(headers.get("etag"))
        self._outcome = _build_outcome(self.case, poll_result)
        if self._outcome is None:
            self._require_time_left(now)
            self._add_status_notice(poll_result)
            self._poll_at = self._schedule(self._pace.after_response(headers, now), now)
        self.last_poll = poll_result
        if self._outcome is None:  # here too: the driver may not take another step
            self._remind(now)

    def _add_status_notice(self, poll_result: PollResult) -> None:
        before = self.last_poll
        moved = (
            before is None or before.status != poll_result.status or before.progress != poll_result.progress
        )
        if moved and poll_result.status in ("opened", "in_progress"):
            name: NoticeName = "opened" if poll_result.status == "opened" else "in_progress"
            self._notices.append(Notice(name=name, case=self.case, progress=poll_result.progress))

    def _count_unreadable(self, error: UnreadableAnswer, headers: Mapping[str, str], now: datetime) -> None:
        """Poll again after an unreadable answer; raise the error after the third in a row."""
        self._unreadable += 1
        if self._unreadable >= MAX_UNREADABLE_ANSWERS:
            raise error
        self._handle_failure(error.message, headers, now)

    def _handle_failure(self, reason: str, headers: Mapping[str, str], now: datetime) -> None:
        self._require_time_left(now)
        self._notices.append(Notice(name="trouble", case=self.case, text=reason))
        self._poll_at = self._not_before = self._schedule(self._pace.after_failure(headers, now), now)

    def _require_time_left(self, now: datetime) -> None:
        # Compare with the service's clock: ours may be hours ahead.
        if now - self._ahead >= self._lost_at:
            raise CaseLost("The case has expired, and the service does not report how it ended.")

    def _remind(self, now: datetime) -> None:
        """Add the reminders that are due; the service may have no way to send an event for them."""
        due = [at for at in self._reminders if at <= now]
        if due and not self._may_have_ended():
            self._reminders = [at for at in self._reminders if at > now]
            if self.last_poll is None or self.last_poll.status in ("pending", "opened"):
                self._send_again(due[-1], now)

    def _send_again(self, reminder: datetime | None, now: datetime) -> None:
        """Add a reminder notice, once even if both the service and our clock trigger it."""
        before = self._reminded_up_to
        if reminder is not None and before is not None and reminder <= before:
            return
        self._reminded_up_to = reminder or before
        if self._reminded_at is None or now > self._reminded_at + SAME_REMINDER_WITHIN:
            self._reminded_at = now
            self._notices.append(Notice(name="reminder", case=self.case, reminder_at=reminder or now))

    def _may_have_ended(self) -> bool:
        """Return whether the case has ended, or may have ended while it was not followed."""
        return self._outcome is not None or (self._came_back and self.last_poll is None)

    def _is_due(self, now: datetime) -> bool:
        """Return whether to poll now; also if the clock was set back since the last poll."""
        return now < self._asked_at or now >= self._find_next_poll()

    def _find_next_poll(self) -> datetime:
        """Return the time of the next poll: as scheduled, or sooner after a hint."""
        return min(self._poll_at, self._not_before) if self._hinted else self._poll_at

    def _compute_response_timeout_s(self, now: datetime) -> float:
        """Return the timeout of a poll, in seconds."""
        return limit_response_time(self._give_up_at - now if self._give_up_at is not None else None)

    def _find_next_time(self) -> datetime:
        reminders = [] if self._may_have_ended() else self._reminders[:1]
        moments = [self._find_next_poll(), *reminders]
        if self._give_up_at is not None:
            moments.append(self._give_up_at)
        return min(moments)

    def _schedule(self, seconds: float, now: datetime) -> datetime:
        """Return the time after `seconds`, or right after the deadline if that is sooner."""
        if self._listening_since is not None or self._awaits_callback:
            seconds = max(seconds, POLL_INTERVAL_WITH_STREAM_S)
        soon_after = self.case.expires_at + timedelta(seconds=1)
        later = now + timedelta(seconds=seconds)
        return soon_after if now < soon_after < later else later


def limit_response_time(left: timedelta | None) -> float:
    """Return the timeout of a poll in seconds: the remaining wait, within a lower and an upper bound."""
    seconds = left.total_seconds() if left is not None else RESPONSE_TIMEOUT_S
    return min(max(seconds, MIN_RESPONSE_TIMEOUT_S), RESPONSE_TIMEOUT_S)


def _is_temporary(status: int) -> bool:
    """Return whether the same request may get another answer later."""
    return status in RETRIED_REFUSALS or (500 <= status < 600 and status not in PERMANENT_FAILURES)


def _refuse_status(status: int, headers: Mapping[str, str], poll_url: str) -> UnreadableAnswer:
    """Return the error for a status that is no poll response, with the target of a redirect."""
    said = f"The service does not report the status of this case: its poll URL answered HTTP {status}"
    if not 300 <= status < 400:
        return UnreadableAnswer(f"{said}.")
    target = _describe_location(headers.get("location"), poll_url)
    return UnreadableAnswer(
        f"{said}{f', a redirect to {target}' if target else ''}. Redirects are not followed."
    )


def _describe_location(location: str | None, poll_url: str) -> str | None:
    """Return the target of a redirect without user name, query and fragment, which may hold secrets."""
    if not location:
        return None
    try:
        target = urlsplit(urljoin(poll_url, location))
    except ValueError:
        return None
    host = target.netloc.rpartition("@")[2]
    return truncate(to_single_line(f"{target.scheme}://{host}{target.path}"), MAX_LOCATION_LENGTH)


def _pick_sendable_etag(tag: str | None) -> str | None:
    """Return the ETag of a response if it can be sent in a request header."""
    return tag if tag is not None and tag.isascii() and tag.isprintable() else None


def _build_outcome(case: FollowedCase, poll_result: PollResult) -> Outcome | None:
    if poll_result.status == "completed" and poll_result.result is not None:
        data = poll_result.result.get("data")
        return Decided(
            case_id=case.case_id,
            action=poll_result.result["action"],
            is_affirmative=case.is_affirmative(poll_result.result["action"]),
            data=data if isinstance(data, dict) else {},
            responded_by=poll_result.responded_by,
            previous_case_id=case.previous_case_id,
            next_case_id=poll_result.next_case_id,
            raw=poll_result.raw,
        )
    if poll_result.status == "expired":
        default_action = poll_result.default_action or case.default_action
        return Expired(case_id=case.case_id, default_action=default_action, raw=poll_result.raw)
    if poll_result.status == "cancelled":
        return Cancelled(case_id=case.case_id, reason=poll_result.reason, raw=poll_result.raw)
    return None
