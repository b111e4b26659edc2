"""Runs a policy over traffic that is stored: what would have been held, had it been in force.

It works beside the traffic and steps back for it: with detectors of its own, a little at a time.
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
from placet.relay.audit.audit_event import AuditEvent
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.presidio import PresidioDetector
from placet.relay.detectors.registry import DetectorRegistry, load_detectors
from placet.relay.inspection.dry_run import (
    REQUEST_LEGS,
    build_evaluator,
    choose_strictest,
    evaluate_pieces,
    extract_pieces,
)
from placet.relay.policies.evaluation import Evaluation, Outcome
from placet.relay.policies.finding import Finding, format_mask
from placet.relay.policies.masking import mask_text
from placet.relay.policies.policy import Leg, Policy

CALL_EVENT_TYPE = "COMMUNICATION_AUDIT"
BATCH = 10
WORK_S = 0.001
"""After so much work at a stretch it rests,"""
REST_RATIO = 3.0
"""so many times as long as it worked,"""
MAX_REST_S = 0.05
"""but not for this long: when it waited for another process, others had the time."""
PRESIDIO_START_TIMEOUT = timedelta(seconds=120)
MAX_REMEMBERED = 50_000
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
    """Where a replay ends if the traffic does not; Presidio's start is not counted."""

    messages: Annotated[int, Meta(ge=1, le=50_000, description="How many messages are read.")] = 1_000
    seconds: Annotated[int, Meta(ge=1, le=120, description="How long it may take.")] = 20
    examples: Annotated[int, Meta(ge=0, le=100, description="How many messages are shown.")] = 10


class ReplayFinding(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where something was found; never what."""

    entity: str
    score: float
    path: str
    start: int
    end: int


class ReplayExample(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that would not have passed untouched."""

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
        str | None, Meta(description="The words around it, masked; null if it could not be checked.")
    ]


class ReplayResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a policy would have done."""

    summary: str
    policy_id: str
    policy_version: str
    policy_name: str
    since: Timestamp
    until: Timestamp
    complete: Annotated[bool, Meta(description="Whether all messages of the time were read.")]
    stopped_by: Annotated[
        Literal["messages", "seconds"] | None, Meta(description="Which limit ended it before.")
    ]
    reached_at: Annotated[
        Timestamp | None, Meta(description="The moment of the last message read; go on with it as `since`.")
    ]
    read: Annotated[int, Meta(description="How many messages were read.")]
    examined: Annotated[int, Meta(description="How many of them had something to look at on its legs.")]
    without_payload: Annotated[int, Meta(description="How many were kept without content that can be read.")]
    masked_before: Annotated[
        int, Meta(description="How many were kept without what other policies had found in them.")
    ]
    repeated: Annotated[int, Meta(description="How many only repeated an answer that was looked at.")]
    outcomes: Annotated[dict[Outcome, int], Meta(description="What would have become of those examined.")]
    unchecked: Annotated[int, Meta(description="How many could not be checked, and would have been held.")]
    examples: tuple[ReplayExample, ...]


def load_replay_detectors() -> DetectorRegistry:
    """Detectors that no traffic waits for; Presidio may take its time to start."""
    return load_detectors(presidio=PresidioDetector(within=PRESIDIO_START_TIMEOUT))


async def replay_policy(
    policy: Policy,
    *,
    store: AuditStore,
    tenant: str,
    asked: AuditFilter,
    limits: ReplayLimits,
    detectors: DetectorRegistry,
    monotonic: Callable[[], float],
    now: datetime,
) -> ReplayResult:
    """Run the policy over the stored messages of a tenant, the oldest first. Its own window does not count.

    `asked` says from when to when, and whose. Raises `ValidationFailed` if the time is not sound.
    """
    if asked.since is None or asked.until is None or asked.since >= asked.until:
        raise ValidationFailed("since is not before until.", path="since")
    always = replace(policy, valid_from=None, valid_to=None)
    inspector = await build_evaluator(always, detectors, now=now)
    run = _ReplayRun(always, inspector, limits, now=now)
    messages = replace(asked, types=(CALL_EVENT_TYPE,))
    if await store.list_audit_events_after(tenant, messages, limit=1):
        await run.warm_up()
    pace = _Throttle(monotonic, limits.seconds)
    try:
        async with asyncio.timeout(limits.seconds):
            await _replay_events(run, pace, store, tenant, messages)
    except TimeoutError:
        run.stopped_by = "seconds"
    return run.result(asked.since, asked.until)


async def _replay_events(
    run: "_ReplayRun", pace: "_Throttle", store: AuditStore, tenant: str, asked: AuditFilter
) -> None:
    after = 0
    while rows := await store.list_audit_events_after(tenant, asked, after=after, limit=BATCH):
        for _, row in rows:
            if run.read >= run.limits.messages or pace.is_over:
                run.stopped_by = "seconds" if pace.is_over else "messages"
                return
            await run.take(row)
            await pace.rest()
        after = rows[-1][0]


class _Throttle:
    """Works in short stints, and leaves the event loop to others between them."""

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._over = self._began + seconds

    @property
    def is_over(self) -> bool:
        return self._monotonic() >= self._over

    async def rest(self) -> None:
        worked = self._monotonic() - self._began
        if worked >= WORK_S:
            await asyncio.sleep(min(worked * REST_RATIO, MAX_REST_S))
            self._began = self._monotonic()


class _ReplayRun:
    """One replay, as far as it is."""

    def __init__(
        self, policy: Policy, inspector: PolicyEvaluator, limits: ReplayLimits, *, now: datetime
    ) -> None:
        self.limits = limits
        self.read = 0
        self.stopped_by: Literal["messages", "seconds"] | None = None
        self._policy = policy
        self._inspector = inspector
        self._now = now
        self._reached_at: datetime | None = None
        self._examined = self._without = self._masked = self._repeated = self._unchecked = 0
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._examples: list[ReplayExample] = []
        self._seen: set[bytes] = set()

    async def warm_up(self) -> None:
        """Let the detector start, which is no part of the time that a replay may take."""
        await self._evaluate(self._policy.config.enabled_legs.legs[0], [Scannable("nothing", "nothing")])

    async def take(self, row: AuditRow) -> None:
        """Look at one message and its answer."""
        self.read += 1
        self._reached_at = row.at
        try:
            event = _decode(row.body)
            sides = [side for side in _list_sides(event, self._policy) if side[1]]
        except (msgspec.DecodeError, ValidationFailed, A2AError, _NoPayload):
            self._without += 1
            return
        if _MASK_PREFIX.encode() in row.body:
            self._masked += 1
        fresh = [side for side in sides if side[0] in REQUEST_LEGS or not self._is_repeated(event, side[1])]
        if not fresh:
            self._repeated += bool(sides)
            return
        self._count(event, [(leg, pieces, await self._evaluate(leg, pieces)) for leg, pieces in fresh])

    async def _evaluate(self, leg: Leg, pieces: list[Scannable]) -> Evaluation:
        return await evaluate_pieces(self._inspector, pieces, source="", sink="", leg=leg, at=self._now)

    def _is_repeated(self, event: AuditEvent, pieces: list[Scannable]) -> bool:
        """Whoever asks for a task again and again gets the same answer again and again."""
        if event.task_id is None:
            return False
        digest = hashlib.sha256(event.task_id.encode("utf-8", "surrogatepass"))
        for piece in pieces:
            digest.update(piece.text.encode("utf-8", "surrogatepass") + b"\0")
        known = digest.digest() in self._seen
        if len(self._seen) < MAX_REMEMBERED:
            self._seen.add(digest.digest())
        return known

    def _count(self, event: AuditEvent, found: list[tuple[Leg, list[Scannable], Evaluation]]) -> None:
        self._examined += 1
        outcome = choose_strictest([one.outcome for _, _, one in found])
        self._outcomes[outcome] += 1
        self._unchecked += any(one.unchecked for _, _, one in found)
        if outcome is not Outcome.PASS and len(self._examples) < self.limits.examples:
            leg, pieces, worst = max(found, key=lambda side: side[2].outcome.strictness)
            self._examples.append(_build_example(event, leg, worst, _build_excerpt(pieces, worst.findings)))

    def result(self, since: datetime, until: datetime) -> ReplayResult:
        """What came of it."""
        return ReplayResult(
            summary=self._summary(),
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
            without_payload=self._without,
            masked_before=self._masked,
            repeated=self._repeated,
            outcomes=self._outcomes,
            unchecked=self._unchecked,
            examples=tuple(self._examples),
        )

    def _summary(self) -> str:
        """The whole in plain words; what could not be seen comes with what was."""
        counts = self._outcomes
        words = [
            f"Of {self._examined} messages that could be looked at, {counts[Outcome.HOLD]} would have been "
            f"held, {counts[Outcome.BLOCK]} blocked and {counts[Outcome.MASK]} masked."
        ]
        if self._without:
            words.append(f"{self._without} more were kept without their content, so nobody can say.")
        if self._masked:
            words.append(
                f"In {self._masked} something was masked before they were kept; this policy did not see it."
            )
        if self.stopped_by is not None:
            words.append(f"The replay ended at its limit of {self.stopped_by}; there is more.")
        return " ".join(words)


def _list_sides(event: AuditEvent, policy: Policy) -> Iterator[tuple[Leg, list[Scannable]]]:
    """The request and the answer, each on the first leg of its way on which the policy looks."""
    payload = event.payload
    if payload is None or (payload.request_body is None and payload.response_body is None):
        raise _NoPayload
    dialect = _DIALECTS.get((event.transport, payload.version), RPC_1_0)
    legs = policy.config.enabled_legs.legs
    request = next((leg for leg in legs if leg in REQUEST_LEGS), None)
    if request is not None and isinstance(payload.request_body, dict):
        call = A2ACall(dialect=dialect, operation="send", document=payload.request_body)
        if call.message is not None:
            yield request, extract_pieces(call)
    answer = next((leg for leg in legs if leg not in REQUEST_LEGS), None)
    if answer is not None and payload.response_body is not None:
        body = payload.response_body
        listed = body if isinstance(body, list) else [body]
        yield (
            answer,
            [piece for one in listed if isinstance(one, dict) for piece in _extract_answer(dialect, one)],
        )


class _NoPayload(Exception):
    """An event without content."""


def _extract_answer(dialect: Dialect, document: dict[str, Any]) -> list[Scannable]:
    reply = A2AReply(dialect=dialect, operation="send", document=document)
    if isinstance(reply.result.get("tasks"), list):
        reply = A2AReply(dialect=dialect, operation="list", document=document)
    return extract_pieces(reply)


def _build_example(event: AuditEvent, leg: Leg, found: Evaluation, excerpt: str | None) -> ReplayExample:
    return ReplayExample(
        event_id=event.event_id,
        correlation_id=event.correlation_id,
        task_id=event.task_id,
        sent_at=event.sent_at,
        source_agent_id=event.source_agent.id if event.source_agent else None,
        source_user_id=event.source_user.id if event.source_user else None,
        sink_agent_id=event.sink_agent.id if event.sink_agent else None,
        leg=leg,
        outcome=found.outcome,
        reason=found.reason,
        findings=tuple(
            ReplayFinding(entity=one.entity, score=one.score, path=one.path, start=one.start, end=one.end)
            for one in found.findings[:20]
        ),
        excerpt=excerpt,
    )


def _build_excerpt(pieces: list[Scannable], findings: tuple[Finding, ...]) -> str | None:
    """The words around the first finding, with nothing that was found, wherever it stands."""
    if not findings:
        return None
    number = findings[0].piece
    text = mask_text(pieces[number].text, [one for one in findings if one.piece == number])
    for one in sorted(findings, key=lambda finding: -len(finding.text)):
        if one.text.strip():
            text = text.replace(one.text, format_mask(one.entity))
    start = max(0, text.find(_MASK_PREFIX) - EXCERPT_CONTEXT)
    return text[start : start + 2 * EXCERPT_CONTEXT + 40].encode("utf-8", "replace").decode()
