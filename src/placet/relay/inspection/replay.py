"""Replay a policy on stored traffic, to show which messages it would have held.

A replay uses separate detectors and pauses often, so that it does not slow down live traffic.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.errors import ValidationFailed
from placet.ports.audit_store import AuditFilter, AuditRow, AuditStore
from placet.ports.detector import Scannable
from placet.protocol.timestamp import Timestamp
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_0_3, REST_1_0, RPC_0_3, RPC_1_0, Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_event import STARTED_STAGE, AuditEvent
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.presidio.detector import PresidioDetector
from placet.relay.detectors.registry import DetectorRegistry, load_detectors
from placet.relay.inspection.dry_run import (
    assume_forwarded,
    build_evaluator,
    choose_strictest,
    evaluate_pieces,
    extract_pieces,
)
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding, format_mask, mask_text
from placet.relay.policy.policy import REQUEST_LEGS, RESPONSE_LEGS, Leg, Policy

CALL_EVENT_TYPE = "COMMUNICATION_AUDIT"
BATCH = 10
WORK_S = 0.001
"""The replay pauses after this much work."""
PAUSE_RATIO = 3.0
"""The duration of a pause, as a multiple of the work before it."""
MAX_PAUSE_S = 0.05
"""The maximum pause. While the replay waits for another process, it does not block the event loop."""
PRESIDIO_START_TIMEOUT = timedelta(seconds=120)
MAX_DIGESTS = 50_000
EXCERPT_CONTEXT = 60
_MASK_PREFIX = "[MASKED"
_DIALECTS: dict[tuple[str | None, str | None], Dialect] = {
    ("JSONRPC", "1.0"): RPC_1_0,
    ("JSONRPC", "0.3"): RPC_0_3,
    ("REST", "1.0"): REST_1_0,
    ("REST", "0.3"): REST_0_3,
}
_decode = msgspec.json.Decoder(AuditEvent).decode


class ReplayLimits(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The limits of a replay. The start of Presidio does not count."""

    messages: Annotated[int, Meta(ge=1, le=50_000, description="The maximum number of messages to read.")] = (
        1_000
    )
    seconds: Annotated[int, Meta(ge=1, le=120, description="The maximum duration.")] = 20
    examples: Annotated[int, Meta(ge=0, le=100, description="The maximum number of examples.")] = 10


class ReplayFinding(Struct, frozen=True, kw_only=True, rename="camel"):
    """The position and entity type of a finding, without its text."""

    entity: str
    score: float
    path: str
    start: int
    end: int


class ReplayExample(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that the policy would have masked, held, blocked or logged."""

    event_id: str
    correlation_id: str
    task_id: str | None
    sent_at: Timestamp
    source_agent_id: str | None
    source_user_id: str | None
    sink_agent_id: str | None
    leg: Leg
    outcome: Outcome
    reason: str
    findings: tuple[ReplayFinding, ...]
    excerpt: Annotated[
        str | None,
        Meta(description="The text around the first finding, masked. Null if it could not be checked."),
    ]


class ReplayResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of a replay."""

    summary: str
    policy_id: str
    policy_version: str
    policy_name: str
    since: Timestamp
    until: Timestamp
    complete: Annotated[bool, Meta(description="Whether all messages of the time range were read.")]
    stopped_by: Annotated[
        Literal["messages", "seconds"] | None,
        Meta(description="The limit that ended the replay, or null if it is complete."),
    ]
    reached_at: Annotated[
        Timestamp | None,
        Meta(description="The time of the last message read. To continue, send it as `since`."),
    ]
    read: Annotated[int, Meta(description="The number of messages read.")]
    examined: Annotated[
        int, Meta(description="The number of messages with content on the legs of the policy.")
    ]
    without_payload: Annotated[
        int, Meta(description="The number of messages stored without readable content.")
    ]
    masked_before: Annotated[
        int, Meta(description="The number of messages that other policies masked before they were stored.")
    ]
    repeated: Annotated[
        int, Meta(description="The number of messages that only repeated an examined response.")
    ]
    outcomes: Annotated[dict[Outcome, int], Meta(description="The number of examined messages by outcome.")]
    unchecked: Annotated[
        int, Meta(description="The number of messages that could not be checked and would have been held.")
    ]
    examples: tuple[ReplayExample, ...]


def load_replay_detectors() -> DetectorRegistry:
    """Return separate detectors for replays. Presidio gets more time to start than for live traffic."""
    return load_detectors(instead=[PresidioDetector(within=PRESIDIO_START_TIMEOUT)])


async def replay_policy(
    policy: Policy,
    *,
    store: AuditStore,
    tenant: str,
    audit_filter: AuditFilter,
    limits: ReplayLimits,
    detectors: DetectorRegistry,
    monotonic: Callable[[], float],
    now: datetime,
) -> ReplayResult:
    """Replay the policy on the stored messages of a tenant, the oldest first. Ignores its validity period.

    `audit_filter` selects the time range and the agents. Raises `ValidationFailed` if `since` is not before
    `until`.
    """
    if audit_filter.since is None or audit_filter.until is None or audit_filter.since >= audit_filter.until:
        raise ValidationFailed("since is not before until. Send an earlier since.", path="since")
    always_valid = replace(policy, valid_from=None, valid_to=None)
    evaluator = await build_evaluator(always_valid, detectors, now=now)
    run = _ReplayRun(always_valid, evaluator, limits, now=now)
    messages = replace(audit_filter, types=(CALL_EVENT_TYPE,))
    if await store.list_audit_events_after(tenant, messages, limit=1):
        await run.warm_up()
    throttle = _Throttle(monotonic, limits.seconds)
    try:
        async with asyncio.timeout(limits.seconds):
            await _replay_events(run, throttle, store, tenant, messages)
    except TimeoutError:
        run.stop("seconds")
    return run.result(audit_filter.since, audit_filter.until)


async def _replay_events(
    run: "_ReplayRun", throttle: "_Throttle", store: AuditStore, tenant: str, audit_filter: AuditFilter
) -> None:
    after = 0
    while rows := await store.list_audit_events_after(tenant, audit_filter, after=after, limit=BATCH):
        for _, row in rows:
            if run.read >= run.limits.messages or throttle.is_expired:
                run.stop("seconds" if throttle.is_expired else "messages")
                return
            await run.add_event(row)
            await throttle.pause()
        after = rows[-1][0]


class _Throttle:
    """Limits a replay to short periods of work with pauses for other tasks of the event loop."""

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        self._monotonic = monotonic
        self._started_at = monotonic()
        self._deadline = self._started_at + seconds

    @property
    def is_expired(self) -> bool:
        return self._monotonic() >= self._deadline

    async def pause(self) -> None:
        worked = self._monotonic() - self._started_at
        if worked >= WORK_S:
            await asyncio.sleep(min(worked * PAUSE_RATIO, MAX_PAUSE_S))
            self._started_at = self._monotonic()


class _ReplayRun:
    """The counts and examples of one replay."""

    def __init__(
        self, policy: Policy, evaluator: PolicyEvaluator, limits: ReplayLimits, *, now: datetime
    ) -> None:
        self.limits = limits
        self.read = 0
        self.stopped_by: Literal["messages", "seconds"] | None = None
        self._policy = policy
        self._evaluator = evaluator
        self._now = now
        self._reached_at: datetime | None = None
        self._examined = self._without_payload = self._masked = self._repeated = self._unchecked = 0
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._examples: list[ReplayExample] = []
        self._digests: set[bytes] = set()

    def stop(self, limit: Literal["messages", "seconds"]) -> None:
        """Record which limit ended the replay before it had read everything."""
        self.stopped_by = limit

    async def warm_up(self) -> None:
        """Start the detector, so that its start does not count toward the time limit."""
        await self._evaluate(self._policy.config.enabled_legs.legs[0], [Scannable("nothing", "nothing")])

    async def add_event(self, row: AuditRow) -> None:
        """Evaluate the request and the response of one stored call."""
        self._reached_at = row.at
        event = _decode_or_none(row.body)
        if event is not None and event.payload is not None and event.payload.stage == STARTED_STAGE:
            return  # another event has the messages of the stream
        self.read += 1
        try:
            if event is None:
                raise _NoPayload
            messages = [(leg, pieces) for leg, pieces in _extract_messages(event, self._policy) if pieces]
        except (msgspec.DecodeError, ValidationFailed, A2AError, _NoPayload):
            self._without_payload += 1
            return
        if _MASK_PREFIX.encode() in row.body:
            self._masked += 1
        new = [
            (leg, pieces)
            for leg, pieces in messages
            if leg in REQUEST_LEGS or not self._is_repeated(event, pieces)
        ]
        if not new:
            self._repeated += bool(messages)
            return
        self._count(event, [(leg, pieces, await self._evaluate(leg, pieces)) for leg, pieces in new])

    async def _evaluate(self, leg: Leg, pieces: list[Scannable]) -> Evaluation:
        return await evaluate_pieces(self._evaluator, pieces, source="", sink="", leg=leg, at=self._now)

    def _is_repeated(self, event: AuditEvent, pieces: list[Scannable]) -> bool:
        """Whether the response was examined before. Callers that poll a task get the same response often."""
        if event.task_id is None:
            return False
        digest = hashlib.sha256(event.task_id.encode("utf-8", "surrogatepass"))
        for piece in pieces:
            digest.update(piece.text.encode("utf-8", "surrogatepass") + b"\0")
        is_known = digest.digest() in self._digests
        if len(self._digests) < MAX_DIGESTS:
            self._digests.add(digest.digest())
        return is_known

    def _count(self, event: AuditEvent, results: list[tuple[Leg, list[Scannable], Evaluation]]) -> None:
        self._examined += 1
        outcome = choose_strictest([evaluation.outcome for _, _, evaluation in results])
        self._outcomes[outcome] += 1
        self._unchecked += any(evaluation.unchecked for _, _, evaluation in results)
        if outcome is not Outcome.PASS and len(self._examples) < self.limits.examples:
            leg, pieces, strictest = max(results, key=lambda result: result[2].outcome.strictness)
            excerpt = _build_excerpt(pieces, strictest.findings)
            self._examples.append(_build_example(event, leg, strictest, excerpt))

    def result(self, since: datetime, until: datetime) -> ReplayResult:
        """Return the result of the replay."""
        return ReplayResult(
            summary=self._summarize(),
            policy_id=self._policy.policy_id,
            policy_version=self._policy.version,
            policy_name=self._policy.name,
            since=since,
            until=until,
            complete=self.stopped_by is None,
            stopped_by=self.stopped_by,
            reached_at=self._reached_at,
            read=self.read,
            examined=self._examined,
            without_payload=self._without_payload,
            masked_before=self._masked,
            repeated=self._repeated,
            outcomes=self._outcomes,
            unchecked=self._unchecked,
            examples=tuple(self._examples),
        )

    def _summarize(self) -> str:
        """Return the counts in sentences, with the messages that could not be examined."""
        counts = self._outcomes
        sentences = [
            f"Of {self._examined} examined messages, {counts[Outcome.HOLD]} would have been "
            f"held, {counts[Outcome.BLOCK]} blocked and {counts[Outcome.MASK]} masked."
        ]
        if self._without_payload:
            sentences.append(
                f"{self._without_payload} more were stored without their content and not examined."
            )
        if self._masked:
            sentences.append(
                f"{self._masked} were masked before they were stored; the policy did not see the masked text."
            )
        if self.stopped_by is not None:
            sentences.append(f"The replay reached its limit of {self.stopped_by}; there are more messages.")
        return " ".join(sentences)


def _decode_or_none(body: bytes) -> AuditEvent | None:
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return None


def _extract_messages(event: AuditEvent, policy: Policy) -> Iterator[tuple[Leg, list[Scannable]]]:
    """Yield the texts of the request and the response, each with the first of its legs in the policy."""
    payload = event.payload
    if payload is None or (payload.request_body is None and payload.response_body is None):
        raise _NoPayload
    dialect = _DIALECTS.get((event.transport, payload.version), RPC_1_0)
    legs = policy.config.enabled_legs.legs
    request_leg = next((leg for leg in legs if leg in REQUEST_LEGS), None)
    if request_leg is not None and isinstance(payload.request_body, dict):
        call = A2ACall(dialect=dialect, operation="send", document=payload.request_body)
        if call.message is not None:
            yield request_leg, extract_pieces(call)
    response_leg = next((leg for leg in legs if leg in RESPONSE_LEGS), None)
    if response_leg is not None and payload.response_body is not None:
        body = payload.response_body
        documents = body if isinstance(body, list) else [body]
        yield (
            response_leg,
            [
                piece
                for document in documents
                if isinstance(document, dict)
                for piece in _extract_response(dialect, document)
            ],
        )


class _NoPayload(Exception):
    """An audit event has no stored content."""


def _extract_response(dialect: Dialect, document: dict[str, Any]) -> list[Scannable]:
    reply = A2AReply(dialect=dialect, operation="send", document=document)
    if isinstance(reply.result.get("tasks"), list):
        reply = A2AReply(dialect=dialect, operation="list", document=document)
    return extract_pieces(assume_forwarded(reply))


def _build_example(event: AuditEvent, leg: Leg, evaluation: Evaluation, excerpt: str | None) -> ReplayExample:
    return ReplayExample(
        event_id=event.event_id,
        correlation_id=event.correlation_id,
        task_id=event.task_id,
        sent_at=event.sent_at,
        source_agent_id=event.source_agent.id if event.source_agent else None,
        source_user_id=event.source_user.id if event.source_user else None,
        sink_agent_id=event.sink_agent.id if event.sink_agent else None,
        leg=leg,
        outcome=evaluation.outcome,
        reason=evaluation.reason,
        findings=tuple(
            ReplayFinding(
                entity=finding.entity,
                score=finding.score,
                path=finding.path,
                start=finding.start,
                end=finding.end,
            )
            for finding in evaluation.findings[:20]
        ),
        excerpt=excerpt,
    )


def _build_excerpt(pieces: list[Scannable], findings: tuple[Finding, ...]) -> str | None:
    """Return the text around the first finding, with all findings masked, or None if there is none."""
    if not findings:
        return None
    index = findings[0].piece
    text = mask_text(pieces[index].text, [finding for finding in findings if finding.piece == index])
    for finding in sorted(findings, key=lambda finding: -len(finding.text)):
        if finding.text.strip():
            text = text.replace(finding.text, format_mask(finding.entity))
    start = max(0, text.find(_MASK_PREFIX) - EXCERPT_CONTEXT)
    return text[start : start + 2 * EXCERPT_CONTEXT + 40].encode("utf-8", "replace").decode()
