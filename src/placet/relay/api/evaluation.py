"""`/relay/v1/policies/evaluate`: what policies would do with a message, before anyone sends it."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from placet.errors import CaseNotFound, RateLimited, Unavailable
from placet.http.route import HttpApi
from placet.ports.detector import Scannable
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import RelayRequest
from placet.relay.api.concurrency import ConcurrencyLimit
from placet.relay.api.policies import PATH, policies
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.dry_run import (
    REQUEST_LEGS,
    SampleMessage,
    build_evaluator,
    build_forwarded,
    choose_strictest,
    combine_evaluations,
    evaluate_pieces,
    extract_pieces,
    sample_from_text,
)
from placet.relay.policies.binding import BindingId, BindingLevel
from placet.relay.policies.evaluation import Evaluation, FailedCheck, Outcome
from placet.relay.policies.finding import Finding
from placet.relay.policies.policy import (
    Leg,
    Policy,
    PolicyAction,
    create_policy,
    parse_policy_draft,
    raise_invalid,
)
from placet.relay.policies.policy_set import AppliedPolicy
from placet.relay.policies.records import PolicyVersions
from placet.relay.policies.repository import PolicyRepository
from placet.relay.registry.live_registry import LiveRegistry

AT_ONCE_EACH, AT_ONCE = 2, 4
UNSAVED = "unsaved"


class Inspectors(Protocol):
    """Knows what looks at a tenant's messages."""

    async def inspector(self, tenant: str) -> PolicyEvaluator | None:
        """All that is in force for the tenant, made ready; None if it cannot be."""
        ...


class EvaluateRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A message to try: exactly one of `text`, `message` and `task`."""

    text: Annotated[str | None, Meta(description="A message with this one text.")] = None
    message: Annotated[dict[str, Any] | None, Meta(description="A whole A2A message, of any version.")] = None
    task: Annotated[
        dict[str, Any] | None, Meta(description="A whole A2A task, as an agent answers with one.")
    ] = None
    legs: Annotated[
        tuple[Leg, ...] | None, Meta(description="Default: all of them; with a task those of answers.")
    ] = None
    source_agent_id: BindingId | None = None
    source_user_id: BindingId | None = None
    sink_agent_id: BindingId | None = None
    at: Annotated[Timestamp | None, Meta(description="When it would be sent; default: now.")] = None
    policy: Annotated[
        dict[str, Any] | None,
        Meta(
            description="A policy to try as if it applied to every message: an unsaved one as it would be "
            "POSTed, or a saved one by `policyId` and, if not the newest, `version`."
        ),
    ] = None
    alone: Annotated[bool, Meta(description="Only `policy`, without what is in force.")] = False


class NamedPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy that was looked at, and through what it applies."""

    policy_id: str
    version: str
    name: str
    action: PolicyAction
    level: BindingLevel


class UncheckedPolicy(NamedPolicy, frozen=True, kw_only=True, rename="camel"):
    """A policy that could not be checked, which holds the message."""

    reason: str


class LegView(Struct, frozen=True, kw_only=True, rename="camel"):
    """What would become of the message on one leg, and why."""

    leg: Leg
    outcome: Outcome
    reason: str
    decided_by: NamedPolicy | None
    matched: tuple[NamedPolicy, ...]
    clean: tuple[NamedPolicy, ...]
    unchecked: tuple[UncheckedPolicy, ...]
    not_reached: tuple[NamedPolicy, ...]
    findings: tuple[Finding, ...]
    opaque: Annotated[
        tuple[str, ...], Meta(description="Where it carries what is no text, which nobody looks at.")
    ]
    forwarded: Annotated[
        dict[str, Any] | None,
        Meta(description="What would go on, without what is masked: at once, or when a person lets it."),
    ]
    text: Annotated[str | None, Meta(description="The same where only a text was given.")] = None


class EvaluateReply(Struct, frozen=True, kw_only=True, rename="camel"):
    """What would become of the message: on each leg, and on its whole way."""

    outcome: Outcome
    legs: tuple[LegView, ...]


class EvaluationApi(HttpApi):
    """Handles these routes."""

    def __init__(
        self,
        policy_repository: PolicyRepository,
        detectors: DetectorRegistry,
        in_force: Inspectors,
        members: LiveRegistry | None = None,
    ) -> None:
        self._books = policy_repository
        self._members = members
        self._detectors = detectors
        self._in_force = in_force
        self._turns = ConcurrencyLimit(
            each=AT_ONCE_EACH,
            together=AT_ONCE,
            refusal="Others are trying policies right now; wait a moment.",
            retry_after=1,
        )

    @policies.search(
        f"{PATH}/evaluate",
        "evaluatePolicies",
        description="Nothing is sent, held or kept; the audit says that somebody tried something.",
        body=EvaluateRequest,
        reply=EvaluateReply,
        errors=(CaseNotFound, RateLimited),
    )
    async def evaluate(self, request: RelayRequest) -> EvaluateReply:
        """Say what the policies would do with a message, and why."""
        asked = request.read_body(EvaluateRequest)
        specimen, legs = _specimen(asked), _legs(asked)
        with self._turns.take(request.member.tenant):
            policy = await self._policy(request, asked)
            inspectors = await self._inspectors(request, asked, policy)
            holds = await self._holds_files(request.member.tenant, asked.sink_agent_id)
            views = [
                await self._evaluate_leg(inspectors, specimen, leg, asked, holds_files=holds) for leg in legs
            ]
        reply = EvaluateReply(outcome=choose_strictest([view.outcome for view in views]), legs=tuple(views))
        self._books.note(
            request.member,
            f"{request.member.name} tried policies on a message of their own.",
            {
                "operation": "EVALUATED",
                "outcome": reply.outcome,
                "policyName": None if policy is None else policy.name,
                "legs": {view.leg: view.outcome for view in views},
            },
        )
        return reply

    async def _policy(self, request: RelayRequest, asked: EvaluateRequest) -> Policy | None:
        if asked.policy is None:
            return None
        return await load_policy_to_try(asked.policy, request.member.tenant, self._detectors, self._books)

    async def _inspectors(
        self, request: RelayRequest, asked: EvaluateRequest, policy: Policy | None
    ) -> list[PolicyEvaluator]:
        found: list[PolicyEvaluator] = []
        if not asked.alone:
            in_force = await self._in_force.inspector(request.member.tenant)
            if in_force is None:
                raise Unavailable("The policies of this tenant cannot be made ready, so nothing passes.")
            found.append(in_force)
        if policy is not None:
            found.append(await build_evaluator(policy, self._detectors, now=self._books.now()))
        return found

    async def _holds_files(self, tenant: str, agent: str | None) -> bool:
        """Whether a person is asked about files that nobody can read; of an agent nobody knows, yes."""
        known = None if self._members is None else (await self._members.current()).agents
        settings = known.get((tenant, agent)) if known is not None and agent is not None else None
        return settings is None or settings.unreadable_files == "hold"

    async def _evaluate_leg(
        self,
        inspectors: list[PolicyEvaluator],
        specimen: SampleMessage,
        leg: Leg,
        asked: EvaluateRequest,
        *,
        holds_files: bool,
    ) -> LegView:
        carrier = specimen.on(leg)
        pieces = extract_pieces(carrier)
        unreadable = holds_files and bool(carrier.opaque())
        found = await self._evaluate(inspectors, pieces, leg, asked, unreadable=unreadable)
        masked = found.mask(pieces)
        goes = found.outcome is not Outcome.BLOCK
        return LegView(
            leg=leg,
            outcome=found.outcome,
            reason=found.reason,
            decided_by=None if found.decided_by is None else view_policy(found.decided_by),
            matched=tuple(map(view_policy, found.matched)),
            clean=tuple(map(view_policy, found.clean)),
            unchecked=tuple(map(view_unchecked, found.unchecked)),
            not_reached=tuple(map(view_policy, found.not_reached)),
            findings=found.findings,
            opaque=tuple(carrier.opaque()),
            forwarded=build_forwarded(carrier, masked) if goes else None,
            text=masked[0].text if goes and asked.text else None,
        )

    async def _evaluate(
        self,
        inspectors: list[PolicyEvaluator],
        pieces: list[Scannable],
        leg: Leg,
        asked: EvaluateRequest,
        *,
        unreadable: bool,
    ) -> Evaluation:
        """What all inspectors say together."""
        found = Evaluation(outcome=Outcome.PASS)
        for one in inspectors:
            seen = await evaluate_pieces(
                one,
                pieces,
                source=asked.source_agent_id or asked.source_user_id or "",
                sink=asked.sink_agent_id or "",
                leg=leg,
                at=asked.at or self._books.now(),
                unreadable=unreadable,
            )
            found = combine_evaluations(found, seen)
        return found


async def load_policy_to_try(
    raw: dict[str, Any], tenant: str, detectors: DetectorRegistry, policy_repository: PolicyRepository
) -> Policy:
    """The policy that somebody wants to try: a saved version, or one that is nowhere yet."""
    if "policyId" in raw and "config" not in raw:
        return find_saved_policy(raw, await policy_repository.policies(tenant))
    draft = parse_policy_draft(raw)
    await asyncio.to_thread(detectors.check, draft)
    return create_policy(draft, policy_id=UNSAVED, now=policy_repository.now())


class _Saved(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    policy_id: BindingId
    version: str | None = None


def find_saved_policy(raw: dict[str, Any], known: Mapping[str, PolicyVersions]) -> Policy:
    try:
        named = msgspec.convert(raw, _Saved)
    except msgspec.ValidationError:
        raise_invalid("policy", "is not a policy, nor the policyId and version of one")
    for one in reversed(known.get(named.policy_id, ())):
        if named.version in (None, one.value.policy.version):
            return one.value.policy
    raise CaseNotFound("There is no such policy, or no such version of it.")


def _specimen(asked: EvaluateRequest) -> SampleMessage:
    given = [one for one in (asked.text, asked.message, asked.task) if one is not None]
    if len(given) != 1:
        raise_invalid("text", "is missing; send exactly one of text, message and task")
    if asked.source_agent_id and asked.source_user_id:
        raise_invalid("sourceUserId", "and sourceAgentId exclude each other")
    if asked.alone and asked.policy is None:
        raise_invalid("policy", "is missing; with alone there is nothing to try")
    if asked.text is not None:
        return sample_from_text(asked.text)
    return SampleMessage(message=asked.message, task=asked.task)


def _legs(asked: EvaluateRequest) -> tuple[Leg, ...]:
    legs = tuple(dict.fromkeys(asked.legs or Leg))
    if asked.task is None:
        return legs
    if asked.legs and any(leg in REQUEST_LEGS for leg in asked.legs):
        raise_invalid("legs", "names one of requests, and a task is an answer")
    return tuple(leg for leg in legs if leg not in REQUEST_LEGS)


def view_policy(applied: AppliedPolicy) -> NamedPolicy:
    return NamedPolicy(**_fields(applied))


def view_unchecked(one: FailedCheck) -> UncheckedPolicy:
    return UncheckedPolicy(**_fields(one.applied), reason=one.reason)


def _fields(applied: AppliedPolicy) -> dict[str, Any]:
    policy = applied.policy
    return {
        "policy_id": policy.policy_id,
        "version": policy.version,
        "name": policy.name,
        "action": policy.action,
        "level": applied.level,
    }
