"""Parse a service's responses: five versions of the protocol, and common deviations of real services.

A missing text, an odd time or an unknown member is accepted. A missing or unknown version, a case without
its URLs or a result without an action raises UnreadableAnswer.
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
from placet.protocol.versions import DEFAULT_VERSION, SPEC_VERSIONS, convert_type
from placet.reviews.registry import find_declaration

HUMAN_INPUT_REQUIRED = "human_input_required"
MAX_BODY_LENGTH = 4 * 1024 * 1024
DEFAULT_TIMEOUT = timedelta(hours=24)
FAR_OFF = datetime(9000, 1, 1, tzinfo=UTC)  # the latest time; services write the year 9999 for "never"


class FollowedCase(Struct, frozen=True, kw_only=True):
    """A case that a service opened and that this agent follows."""

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
    affirmative_actions: tuple[str, ...] = ()
    """The actions that are a yes, as the service declares them for a custom type or custom actions."""
    service_name: str | None = None
    """The name that the service gives itself; not verified, so show it as declared."""
    principal: str | None = None
    """The caller that the service has authenticated, if it says so; show it with the host."""

    @property
    def pressable(self) -> tuple[str, ...]:
        """The actions that may be offered as native buttons, in addition to the link."""
        if self.submit_url is None or self.submit_token is None or self.verification_required:
            return ()
        return self.inline_actions

    def is_affirmative(self, action: str) -> bool:
        """Return whether this action is a yes.

        The affirmative actions of a registered type are fixed. Custom types and custom actions are declared
        in the case. Without a type, those that the caller gave count.
        """
        declared = find_declaration(self.type)
        if declared is not None:
            is_declared = action in self.affirmative_actions and declared.allows_custom_action(action)
            return is_declared or action in declared.affirmative_actions
        return (not self.type or self.type.startswith("x-")) and action in self.affirmative_actions


class PollResult(Struct, frozen=True, kw_only=True):
    """The status of a case in one poll response."""

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
    """A service's suggestion for the next attempt: untrusted text, never an instruction."""

    field: str
    issue: str
    agent_action: str
    impact: str = ""
    priority: str = "medium"


def read_case(status: int, body: bytes, *, url: str, now: datetime) -> FollowedCase | None:
    """Return the case in a response, or None; raises UnreadableAnswer for a malformed one."""
    if status != 202:
        return None
    answer = _parse_object(body)
    if answer is None:
        # It opens a case: a body that cannot be parsed must not pass as an ordinary response.
        if re.search(rb'"hitl"\s*:', body):
            raise UnreadableAnswer("The service's 202 opens a case, but its body is not valid JSON.")
        return None
    hitl, said = answer.get("hitl"), answer.get("status")
    if not isinstance(hitl, dict):
        if said == HUMAN_INPUT_REQUIRED:
            raise UnreadableAnswer("The service's 202 opens a case, but has no hitl object.")
        return None
    return _build_case(hitl, answer, url, now) if said in (None, HUMAN_INPUT_REQUIRED) else None


def read_poll_result(body: bytes, *, case_id: str) -> PollResult:
    """Return the status in a poll response; raises UnreadableAnswer if it is malformed or of another case."""
    answer = _parse_object(body)
    if answer is None:
        raise UnreadableAnswer("The poll response is not a JSON object.")
    named = answer.get("case_id")
    if named is not None and named != case_id:
        raise UnreadableAnswer("The poll response is about another case.")
    status = _get_text(answer, "status")
    if status is None:
        raise UnreadableAnswer("The poll response has no status.")
    result = answer.get("result")
    if status == "completed" and not (isinstance(result, dict) and isinstance(result.get("action"), str)):
        raise UnreadableAnswer("The poll response has status completed but no action.")
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
    """Return the time of the reminder in an event, or None."""
    said = _parse_object(data.encode("utf-8", "replace"))
    return parse_time(said.get("reminder_at")) if said else None


def read_suggestions(body: bytes, *, cycle: int) -> tuple[ServiceSuggestion, ...]:
    """Return the suggestions in a final response; none after two cycles (spec: at most twice)."""
    answer = _parse_object(body)
    listed = answer.get("improvement_suggestions") if answer else None
    if not isinstance(listed, list) or cycle >= MAX_CYCLES:
        return ()
    return tuple(filter(None, map(_parse_suggestion, listed[:20])))


def _build_case(hitl: dict[str, Any], answer: dict[str, Any], url: str, now: datetime) -> FollowedCase:
    version = _parse_version(hitl.get("spec_version"))
    type = _find_type(_require_text(hitl, "type"), answer.get("data"), version)
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
        affirmative_actions=_parse_affirmative_actions(answer.get("data")),
        reminders=_parse_reminders(hitl.get("reminder_at")),
        previous_case_id=_get_text(hitl, "previous_case_id"),
        context=hitl["context"] if isinstance(hitl.get("context"), dict) else {},
        verification_required=policy is not None and _requires_evidence_inline(policy),
        service_name=_find_service_name(answer, answer.get("data"), hitl.get("context")),
        principal=_find_principal(answer.get("data")),
    )


def _find_type(type: str, data: Any, version: str) -> str:
    """Return the review type; 0.5 has no custom types, so there one is sent as `input` beside its name."""
    named = data.get("type") if isinstance(data, dict) else None
    if not isinstance(named, str) or not named.startswith("x-"):
        return type
    return named if type == convert_type(named, version=version) else type


def _parse_inline_actions(hitl: dict[str, Any], type: str) -> tuple[str, ...]:
    """Return the inline actions (spec 0.6, 7.5); all that the review type declares if they are left out."""
    named = hitl.get("inline_actions")
    declared = find_declaration(type)
    if named is None:
        return declared.inline_actions if declared is not None else ()
    listed = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    return tuple(
        dict.fromkeys(
            one
            for one in listed
            if declared is None or one in declared.inline_actions or declared.allows_custom_action(one)
        )
    )


def _parse_affirmative_actions(data: Any) -> tuple[str, ...]:
    """Return the actions that the case declares to be a yes; none unless it is a list of names."""
    named = data.get("affirmative_actions") if isinstance(data, dict) else None
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        return ()
    return tuple(named)


def _requires_evidence_inline(policy: Any) -> bool:
    """Return whether an inline answer requires evidence; True for a policy that cannot be read."""
    if not isinstance(policy, dict):
        return True
    required_for = policy.get("required_for")
    return policy.get("mode") != "optional" and (
        not isinstance(required_for, list) or "inline_submit" in required_for
    )


def _parse_object(body: bytes) -> dict[str, Any] | None:
    if len(body) > MAX_BODY_LENGTH:
        return None
    try:
        answer = msgspec.json.decode(_as_utf8(body))
    except (msgspec.DecodeError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _as_utf8(body: bytes) -> bytes:
    """Return the body, with replacement characters for bytes that are not UTF-8."""
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
        raise UnreadableAnswer(f"The service's 202 opens a case, but has no {name}.")
    return value


def _find_service_name(*places: Any) -> str | None:
    """Return the service's name: `service` as a text or with a `name`, or `service_name`."""
    for place in places:
        found = place if isinstance(place, dict) else {}
        service = found.get("service")
        named = _get_text(service, "name") if isinstance(service, dict) else _get_text(found, "service")
        if named := named or _get_text(found, "service_name"):
            return named
    return None


def _find_principal(data: Any) -> str | None:
    """Return the name of `data.principal`. A service writes `data` itself; a context is its caller's."""
    principal = data.get("principal") if isinstance(data, dict) else None
    return _get_text(principal, "name") if isinstance(principal, dict) else None


def _parse_version(value: Any) -> str:
    """Return the protocol version. Every version requires it, as a text."""
    if value is None:
        raise UnreadableAnswer("The service's 202 opens a case, but has no spec_version.")
    if not isinstance(value, str):
        raise UnreadableAnswer(f'The service\'s spec_version must be a text such as "{DEFAULT_VERSION}".')
    if value not in SPEC_VERSIONS:  # spec 0.9, 2: never treat an unknown version as a known one
        raise UnreadableAnswer(f"This agent does not support version {value[:20]!r} of the protocol.")
    return value


def _parse_token(value: Any) -> str | None:
    """Return a token that a header can carry, or None; without one there are no buttons."""
    return value if isinstance(value, str) and re.fullmatch(r"[!-~]{1,4096}", value) else None


def _get_url(hitl: Mapping[str, Any], name: str, url: str) -> str | None:
    value = _get_text(hitl, name)
    return _join_url(url, value, name) if value else None


def _join_url(url: str, value: str, name: str) -> str:
    try:
        return urljoin(url, value)
    except ValueError:
        raise UnreadableAnswer(f"The service's {name} is not a URL.") from None


def parse_time(value: Any) -> datetime | None:
    """Return an ISO 8601 time in UTC, or None if the value is not one."""
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
    except Exception:  # not a duration: use the default of the protocol
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
