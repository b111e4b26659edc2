"""What a service answered, read leniently: five versions of the protocol, and the slips of real services.

Lenient means: a missing text, an odd time or an unknown member does not stop a person from being asked. It
never means guessing: an unknown version, a case without its addresses or a result without an action is
refused by name.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urljoin

import msgspec
from msgspec import Struct

from placet.errors import UnreadableAnswer
from placet.protocol.duration import parse_duration
from placet.protocol.improvement import MAX_CYCLES
from placet.protocol.poll import Progress
from placet.protocol.versions import SPEC_VERSIONS
from placet.reviews.registry import find_declaration

HUMAN_INPUT_REQUIRED = "human_input_required"
LONGEST_BODY = 4 * 1024 * 1024
DEFAULT_TIMEOUT = timedelta(hours=24)
FAR_OFF = datetime(9000, 1, 1, tzinfo=UTC)  # services that mean "never" name the last year there is


class FollowedCase(Struct, frozen=True, kw_only=True):
    """A question that a service put to a person through this agent."""

    case_id: str
    type: str
    prompt: str
    message: str
    review_url: str
    poll_url: str
    service_url: str
    expires_at: datetime
    created_at: datetime
    spec_version: str
    default_action: str = "skip"
    events_url: str | None = None
    submit_url: str | None = None
    submit_token: str | None = None
    inline_actions: tuple[str, ...] = ()
    reminders: tuple[datetime, ...] = ()
    previous_case_id: str | None = None
    context: dict[str, Any] = {}
    verification_required: bool = False
    service_name: str | None = None
    """What the service calls itself: its word, to be shown beside its host."""

    @property
    def pressable(self) -> tuple[str, ...]:
        """The actions that may be offered as native buttons; the link is always offered beside them."""
        if self.submit_url is None or self.submit_token is None or self.verification_required:
            return ()
        return self.inline_actions


class PollResult(Struct, frozen=True, kw_only=True):
    """Where a case stands, as one poll told."""

    status: str
    result: dict[str, Any] | None = None
    raw: dict[str, Any] = {}
    opened_at: datetime | None = None
    progress: Progress | None = None
    default_action: str | None = None
    reason: str | None = None
    responded_by: dict[str, Any] | None = None
    next_case_id: str | None = None


class ServiceSuggestion(Struct, frozen=True, kw_only=True):
    """What a service thinks would make the next attempt better: its words, never instructions."""

    field: str
    issue: str
    agent_action: str
    impact: str = ""
    priority: str = "medium"


def read_case(status: int, body: bytes, *, url: str, now: datetime) -> FollowedCase | None:
    """The question in an HTTP answer, None if there is none; raises UnreadableAnswer for a broken one."""
    if status != 202:
        return None
    answer = _parse_object(body)
    if answer is None:
        # Whoever writes this asks for a person: that it cannot be read must not look like an answer.
        if re.search(rb'"hitl"\s*:', body):
            raise UnreadableAnswer("The service asks for a person in a way that cannot be read.")
        return None
    hitl, said = answer.get("hitl"), answer.get("status")
    if not isinstance(hitl, dict):
        if said == HUMAN_INPUT_REQUIRED:
            raise UnreadableAnswer("The service asks for a person but does not say how.")
        return None
    return _build_case(hitl, answer, url, now) if said in (None, HUMAN_INPUT_REQUIRED) else None


def read_poll_result(body: bytes, *, case_id: str) -> PollResult:
    """Where the case stands; raises UnreadableAnswer for what is no such thing, or is of another case."""
    answer = _parse_object(body)
    if answer is None:
        raise UnreadableAnswer("The poll's answer is not a JSON object.")
    named = answer.get("case_id")
    if isinstance(named, str) and named != case_id:
        raise UnreadableAnswer("The poll's answer is about another case.")
    status = _get_text(answer, "status")
    if status is None:
        raise UnreadableAnswer("The poll's answer has no status.")
    result = answer.get("result")
    if status == "completed" and not (isinstance(result, dict) and isinstance(result.get("action"), str)):
        raise UnreadableAnswer("The service says completed but gives no action.")
    responded_by = answer.get("responded_by")
    return PollResult(
        status=status,
        result=result if isinstance(result, dict) and status == "completed" else None,
        raw=answer,
        opened_at=parse_time(answer.get("opened_at")),
        progress=_parse_progress(answer.get("progress")),
        default_action=_get_text(answer, "default_action"),
        reason=_get_text(answer, "reason"),
        responded_by=responded_by if isinstance(responded_by, dict) else None,
        next_case_id=_get_text(answer, "next_case_id"),
    )


def read_reminder(data: str) -> datetime | None:
    """Which reminder an event is about, if it says so."""
    said = _parse_object(data.encode("utf-8", "replace"))
    return parse_time(said.get("reminder_at")) if said else None


def read_suggestions(body: bytes, *, cycle: int) -> tuple[ServiceSuggestion, ...]:
    """The service's suggestions in a finished answer; none after two rounds of them (spec: at most twice)."""
    answer = _parse_object(body)
    listed = answer.get("improvement_suggestions") if answer else None
    if not isinstance(listed, list) or cycle >= MAX_CYCLES:
        return ()
    return tuple(filter(None, map(_parse_suggestion, listed[:20])))


def _build_case(hitl: dict[str, Any], answer: dict[str, Any], url: str, now: datetime) -> FollowedCase:
    version = _parse_version(hitl.get("spec_version"))
    if version not in SPEC_VERSIONS:  # 0.9, 2: an unknown version is never taken for a known one
        raise UnreadableAnswer(f"This agent does not speak version {version[:20]!r} of the protocol.")
    type = _require_text(hitl, "type")
    created_at = parse_time(hitl.get("created_at")) or now
    policy = hitl.get("verification_policy")
    return FollowedCase(
        case_id=_require_text(hitl, "case_id"),
        type=type,
        prompt=_get_text(hitl, "prompt") or _get_text(answer, "message") or "A decision is needed.",
        message=_get_text(answer, "message") or _get_text(hitl, "prompt") or "A decision is needed.",
        review_url=_join_url(url, _require_text(hitl, "review_url"), "review_url"),
        poll_url=_join_url(url, _require_text(hitl, "poll_url"), "poll_url"),
        service_url=url,
        expires_at=parse_time(hitl.get("expires_at"))
        or _deadline_from_timeout(created_at, hitl.get("timeout")),
        created_at=created_at,
        spec_version=version,
        default_action=_get_text(hitl, "default_action") or "skip",
        events_url=_get_url(hitl, "events_url", url),
        submit_url=_get_url(hitl, "submit_url", url),
        submit_token=_parse_token(hitl.get("submit_token")),
        inline_actions=_parse_inline_actions(hitl, type),
        reminders=_parse_reminders(hitl.get("reminder_at")),
        previous_case_id=_get_text(hitl, "previous_case_id"),
        context=hitl["context"] if isinstance(hitl.get("context"), dict) else {},
        verification_required=policy is not None and _requires_evidence_inline(policy),
        service_name=_find_service_name(answer, answer.get("data"), hitl.get("context")),
    )


def _parse_inline_actions(hitl: dict[str, Any], type: str) -> tuple[str, ...]:
    """0.6, 7.5: none named means all of the type; only what one press can say whole is offered."""
    named = hitl.get("inline_actions")
    declared = find_declaration(type)
    known = declared.inline_actions if declared is not None else None
    listed = named if isinstance(named, list) else list(known or ())
    return tuple(
        dict.fromkeys(one for one in listed if isinstance(one, str) and (known is None or one in known))
    )


def _requires_evidence_inline(policy: Any) -> bool:
    """Whether buttons are out of the question: evidence is asked for, or the policy cannot be read."""
    if not isinstance(policy, dict):
        return True
    required_for = policy.get("required_for")
    return policy.get("mode") != "optional" and (
        not isinstance(required_for, list) or "inline_submit" in required_for
    )


def _parse_object(body: bytes) -> dict[str, Any] | None:
    if len(body) > LONGEST_BODY:
        return None
    try:
        answer = msgspec.json.decode(_as_utf8(body))
    except (msgspec.DecodeError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _as_utf8(body: bytes) -> bytes:
    """As it is, or with signs in the place of what some other encoding left there."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace").encode()
    return body


def _get_text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _require_text(hitl: Mapping[str, Any], name: str) -> str:
    value = _get_text(hitl, name)
    if value is None:
        raise UnreadableAnswer(f"The service asks for a person but gives no {name}.")
    return value


def _find_service_name(*places: Any) -> str | None:
    """Where services say who they are: `service` as a text or with a `name`, or `service_name`."""
    for place in places:
        found = place if isinstance(place, dict) else {}
        service = found.get("service")
        named = _get_text(service, "name") if isinstance(service, dict) else _get_text(found, "service")
        if named := named or _get_text(found, "service_name"):
            return named
    return None


def _parse_version(value: Any) -> str:
    """The version that is named; a service that names none is of the time when there was one."""
    return SPEC_VERSIONS[0] if value is None or value == "" else str(value)


def _parse_token(value: Any) -> str | None:
    """A token that can stand in a header; without one, the person gets the link alone."""
    return value if isinstance(value, str) and re.fullmatch(r"[!-~]{1,4096}", value) else None


def _get_url(hitl: Mapping[str, Any], name: str, url: str) -> str | None:
    value = _get_text(hitl, name)
    return _join_url(url, value, name) if value else None


def _join_url(url: str, value: str, name: str) -> str:
    try:
        return urljoin(url, value)
    except ValueError:
        raise UnreadableAnswer(f"The service's {name} is no address.") from None


def parse_time(value: Any) -> datetime | None:
    """A moment as services write them, in UTC; None for what is none."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return min(FAR_OFF, moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _deadline_from_timeout(created_at: datetime, timeout: Any) -> datetime:
    try:
        return min(FAR_OFF, created_at + parse_duration(timeout))
    except Exception:  # anything else than a duration means the protocol's own default
        return created_at + DEFAULT_TIMEOUT


def _parse_reminders(value: Any) -> tuple[datetime, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(sorted(filter(None, map(parse_time, listed[:100]))))


def _parse_progress(value: Any) -> Progress | None:
    try:
        return msgspec.convert(value, Progress | None, strict=False)
    except msgspec.ValidationError:
        return None


def _parse_suggestion(value: Any) -> ServiceSuggestion | None:
    try:
        return msgspec.convert(value, ServiceSuggestion)
    except msgspec.ValidationError:
        return None
