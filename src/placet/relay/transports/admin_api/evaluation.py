"""`/relay/v1/policies/evaluate` and `/replay`: try policies on sample messages and stored messages."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from placet.errors import CaseNotFound, RateLimited, Unavailable
from placet.http.route import HttpApi
from placet.ports.audit_store import AuditFilter, AuditStore
from placet.ports.detector import Scannable
from placet.protocol.timestamp import Timestamp
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.dry_run import (
    SampleMessage,
    build_evaluator,
    build_forwarded,
    choose_strictest,
    combine_evaluations,
    evaluate_pieces,
    extract_pieces,
    sample_from_text,
)
from placet.relay.inspection.policy_cache import PolicyCache
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.inspection.replay import ReplayLimits, ReplayResult, replay_policy
from placet.relay.policy.binding import BindingId, BindingLevel
from placet.relay.policy.evaluation import Evaluation, FailedCheck, NearMiss, Outcome
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import (
    MESSAGE_LEGS,
    REQUEST_LEGS,
    Leg,
    Policy,
    PolicyAction,
    create_policy,
    parse_policy_draft,
    raise_invalid,
)
from placet.relay.policy.policy_set import AppliedPolicy, PolicyVersions
from placet.relay.registry import LiveRegistry
from placet.relay.route_addresses import OPERATIONS
from placet.relay.transports.admin_api.access import RelayRequest, check_years
from placet.relay.transports.admin_api.audit import audit
from placet.relay.transports.admin_api.policies import policies

UNSAVED = "unsaved"
DEFAULT_PERIOD = timedelta(days=1)
MAX_RUNNING_EVALUATIONS_PER_TENANT, MAX_RUNNING_EVALUATIONS = 2, 4
MAX_RUNNING_REPLAYS = 2


class ConcurrencyLimit:
    """Rejects an operation that would exceed the limit of its tenant or the total limit."""

    def __init__(self, *, per_tenant: int, total: int, refusal: str, retry_after: int) -> None:
        self._per_tenant = per_tenant
        self._total = total
        self._refusal = refusal
        self._retry_after = retry_after
        self._running: Counter[str] = Counter()

    @contextmanager
    def acquire(self, tenant: str) -> Iterator[None]:
        """Count an operation of this tenant while it runs. Raises RateLimited at a limit."""
        if self._running[tenant] >= self._per_tenant or self._running.total() >= self._total:
            raise RateLimited(self._refusal, retry_after=self._retry_after)
        self._running[tenant] += 1
        try:
            yield
        finally:
            self._running[tenant] -= 1
            self._running += Counter()  # removes tenants without running operations


class EvaluateRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A sample to evaluate: exactly one of `text`, `message` and `task`."""

    text: Annotated[str | None, Meta(description="The text of a message with one part.")] = None
    message: Annotated[dict[str, Any] | None, Meta(description="An A2A message of any version.")] = None
    task: Annotated[dict[str, Any] | None, Meta(description="An A2A task, as an agent returns it.")] = None
    legs: Annotated[
        tuple[Leg, ...] | None,
        Meta(description="The legs to evaluate. Default: all of a message, or the response legs for a task."),
    ] = None
    source_agent_id: BindingId | None = None
    source_user_id: BindingId | None = None
    sink_agent_id: BindingId | None = None
    at: Annotated[Timestamp | None, Meta(description="The time of the evaluation. Default: now.")] = None
    policy: Annotated[
        dict[str, Any] | None,
        Meta(
            description="A policy to evaluate as if it applied to every message: the body of a new policy, "
            "or `policyId` and optionally `version` of a saved one."
        ),
    ] = None
    policy_only: Annotated[bool, Meta(description="Evaluate only `policy`, not the policies in force.")] = (
        False
    )


class NamedPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy that was evaluated, and the level of its binding."""

    policy_id: str
    version: str
    name: str
    action: PolicyAction
    level: BindingLevel


class UncheckedPolicy(NamedPolicy, frozen=True, kw_only=True, rename="camel"):
    """A policy that could not be checked. The message is held."""

    reason: str


class LegView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of the evaluation on one leg."""

    leg: Leg
    outcome: Outcome
    reason: str
    decided_by: NamedPolicy | None
    matched: tuple[NamedPolicy, ...]
    clean: tuple[NamedPolicy, ...]
    unchecked: tuple[UncheckedPolicy, ...]
    not_reached: tuple[NamedPolicy, ...]
    findings: tuple[Finding, ...]
    near_misses: Annotated[
        tuple[NearMiss, ...], Meta(description="What policies almost found, and what would raise the score.")
    ]
    unreadable_paths: Annotated[
        tuple[str, ...], Meta(description="The paths of content that is not text and was not scanned.")
    ]
    forwarded: Annotated[
        dict[str, Any] | None,
        Meta(
            description="The masked message that would be forwarded, at once or after an approval. Null if "
            "it would be blocked."
        ),
    ]
    text: Annotated[str | None, Meta(description="The masked text, if the request has `text`.")] = None


class EvaluateReply(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of the evaluation: the strictest outcome, and the result on each leg."""

    outcome: Outcome
    legs: tuple[LegView, ...]


class EvaluationApi(HttpApi):
    """Handles the route that evaluates policies."""

    def __init__(
        self,
        policy_repository: PolicyRepository,
        detectors: DetectorRegistry,
        policy_cache: PolicyCache,
        registry: LiveRegistry,
    ) -> None:
        self._policy_repository = policy_repository
        self._registry = registry
        self._detectors = detectors
        self._policy_cache = policy_cache
        self._limit = ConcurrencyLimit(
            per_tenant=MAX_RUNNING_EVALUATIONS_PER_TENANT,
            total=MAX_RUNNING_EVALUATIONS,
            refusal="Too many evaluations are running. Try again in a second.",
            retry_after=1,
        )

    @policies.declare(
        OPERATIONS["evaluatePolicies"],
        read_only=True,
        description="The message is not sent, held or stored. The audit log records the evaluation.",
        body=EvaluateRequest,
        reply=EvaluateReply,
        errors=(CaseNotFound, RateLimited),
    )
    async def evaluate(self, request: RelayRequest) -> EvaluateReply:
        """Evaluate policies on a message, and explain the outcome."""
        body = request.read_body(EvaluateRequest)
        sample, legs = _build_sample(body), _choose_legs(body)
        with self._limit.acquire(request.member.tenant):
            policy = await self._load_policy(request, body)
            evaluators = await self._load_evaluators(request, body, policy)
            holds_files = await self._holds_files(request.member.tenant, body.sink_agent_id)
            views = [
                await self._evaluate_leg(evaluators, sample, leg, body, holds_files=holds_files)
                for leg in legs
            ]
        reply = EvaluateReply(outcome=choose_strictest([view.outcome for view in views]), legs=tuple(views))
        self._policy_repository.record_event(
            request.member,
            f"{request.member.name} evaluated policies on a sample message.",
            {
                "operation": "EVALUATED",
                "outcome": reply.outcome,
                "policyName": None if policy is None else policy.name,
                "legs": {view.leg: view.outcome for view in views},
            },
        )
        return reply

    async def _load_policy(self, request: RelayRequest, body: EvaluateRequest) -> Policy | None:
        if body.policy is None:
            return None
        return await load_sample_policy(
            body.policy, request.member.tenant, self._detectors, self._policy_repository
        )

    async def _load_evaluators(
        self, request: RelayRequest, body: EvaluateRequest, policy: Policy | None
    ) -> list[PolicyEvaluator]:
        evaluators: list[PolicyEvaluator] = []
        if not body.policy_only:
            in_force = await self._policy_cache.load_evaluator(request.member.tenant)
            if in_force is None:
                raise Unavailable("The policies of this tenant cannot be loaded, so no messages pass.")
            evaluators.append(in_force)
        if policy is not None:
            now = self._policy_repository.now()
            evaluators.append(await build_evaluator(policy, self._detectors, now=now))
        return evaluators

    async def _holds_files(self, tenant: str, agent: str | None) -> bool:
        """Whether files that are not text are held. True for an agent that does not exist."""
        known = (await self._registry.get_snapshot()).agents
        settings = None if agent is None else known.get((tenant, agent))
        return settings is None or settings.unreadable_files == "hold"

    async def _evaluate_leg(
        self,
        evaluators: list[PolicyEvaluator],
        sample: SampleMessage,
        leg: Leg,
        body: EvaluateRequest,
        *,
        holds_files: bool,
    ) -> LegView:
        carrier = sample.on(leg)
        pieces = extract_pieces(carrier)
        unreadable = holds_files and bool(carrier.unreadable_paths())
        evaluation = await self._evaluate(evaluators, pieces, leg, body, unreadable=unreadable)
        masked = evaluation.mask(pieces)
        is_forwarded = evaluation.outcome is not Outcome.BLOCK
        return LegView(
            leg=leg,
            outcome=evaluation.outcome,
            reason=evaluation.reason,
            decided_by=None if evaluation.decided_by is None else view_policy(evaluation.decided_by),
            matched=tuple(map(view_policy, evaluation.matched)),
            clean=tuple(map(view_policy, evaluation.clean)),
            unchecked=tuple(map(view_unchecked, evaluation.unchecked)),
            not_reached=tuple(map(view_policy, evaluation.not_reached)),
            findings=evaluation.findings,
            near_misses=evaluation.near_misses,
            unreadable_paths=tuple(carrier.unreadable_paths()),
            forwarded=build_forwarded(carrier, masked) if is_forwarded else None,
            text=masked[0].text if is_forwarded and body.text else None,
        )

    async def _evaluate(
        self,
        evaluators: list[PolicyEvaluator],
        pieces: list[Scannable],
        leg: Leg,
        body: EvaluateRequest,
        *,
        unreadable: bool,
    ) -> Evaluation:
        """Return the combined evaluation of all evaluators."""
        combined = Evaluation(outcome=Outcome.PASS)
        for evaluator in evaluators:
            evaluation = await evaluate_pieces(
                evaluator,
                pieces,
                source=body.source_agent_id or body.source_user_id or "",
                sink=body.sink_agent_id or "",
                leg=leg,
                at=body.at or self._policy_repository.now(),
                unreadable=unreadable,
            )
            combined = combine_evaluations(combined, evaluation)
        return combined


async def load_sample_policy(
    raw: dict[str, Any], tenant: str, detectors: DetectorRegistry, policy_repository: PolicyRepository
) -> Policy:
    """Return the policy of an evaluation or replay request: a saved version, or a policy in the request."""
    if "policyId" in raw and "config" not in raw:
        return find_saved_policy(raw, await policy_repository.list_policies(tenant))
    draft = parse_policy_draft(raw)
    await asyncio.to_thread(detectors.check, draft)
    return create_policy(draft, policy_id=UNSAVED, now=policy_repository.now())


class _SavedPolicyRef(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    policy_id: BindingId
    version: str | None = None


def find_saved_policy(raw: dict[str, Any], known: Mapping[str, PolicyVersions]) -> Policy:
    """Return the policy that the request refers to. Raises CaseNotFound."""
    try:
        ref = msgspec.convert(raw, _SavedPolicyRef)
    except msgspec.ValidationError:
        raise_invalid("policy", "is neither a policy nor the policyId and version of one")
    for stored in reversed(known.get(ref.policy_id, ())):
        if ref.version in (None, stored.value.policy.version):
            return stored.value.policy
    raise CaseNotFound("Policy or policy version not found.")


def _build_sample(body: EvaluateRequest) -> SampleMessage:
    samples = [sample for sample in (body.text, body.message, body.task) if sample is not None]
    if len(samples) != 1:
        raise_invalid("text", "is missing; send exactly one of text, message and task")
    if body.source_agent_id and body.source_user_id:
        raise_invalid("sourceUserId", "and sourceAgentId exclude each other; send only one of them")
    if body.policy_only and body.policy is None:
        raise_invalid("policy", "is missing; policyOnly evaluates only this policy")
    if body.text is not None:
        return sample_from_text(body.text)
    return SampleMessage(message=body.message, task=body.task)


def _choose_legs(body: EvaluateRequest) -> tuple[Leg, ...]:
    legs = tuple(dict.fromkeys(body.legs or MESSAGE_LEGS))
    if Leg.AGENT_CARD in legs:
        raise_invalid("legs", "has agentCard, but a message is no card; send only legs of messages")
    if body.task is None:
        return legs
    if body.legs and any(leg in REQUEST_LEGS for leg in body.legs):
        raise_invalid("legs", "has a request leg, but a task is a response; send only response legs")
    return tuple(leg for leg in legs if leg not in REQUEST_LEGS)


def view_policy(applied: AppliedPolicy) -> NamedPolicy:
    """Return the policy as the API shows it."""
    return NamedPolicy(**_list_fields(applied))


def view_unchecked(failed: FailedCheck) -> UncheckedPolicy:
    """Return the unchecked policy as the API shows it."""
    return UncheckedPolicy(**_list_fields(failed.applied), reason=failed.reason)


def _list_fields(applied: AppliedPolicy) -> dict[str, Any]:
    policy = applied.policy
    return {
        "policy_id": policy.policy_id,
        "version": policy.version,
        "name": policy.name,
        "action": policy.action,
        "level": applied.level,
    }


class ReplayRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A policy, and the messages to replay it on."""

    policy: Annotated[
        dict[str, Any],
        Meta(description="The body of a new policy, or `policyId` and optionally `version` of a saved one."),
    ]
    since: Annotated[Timestamp | None, Meta(description="The start. Default: one day before `until`.")] = None
    until: Annotated[Timestamp | None, Meta(description="The end, exclusive. Default: now.")] = None
    source_agent_id: BindingId | None = None
    source_user_id: BindingId | None = None
    sink_agent_id: BindingId | None = None
    limits: ReplayLimits = ReplayLimits()


class ReplayApi(HttpApi):
    """Handles the route that replays a policy. `create_detectors` returns separate detectors for it."""

    def __init__(
        self,
        policy_repository: PolicyRepository,
        store: AuditStore,
        *,
        create_detectors: Callable[[], DetectorRegistry],
        monotonic: Callable[[], float],
    ) -> None:
        self._policy_repository = policy_repository
        self._store = store
        self._create_detectors = create_detectors
        self._monotonic = monotonic
        self._limit = ConcurrencyLimit(
            per_tenant=1,
            total=MAX_RUNNING_REPLAYS,
            refusal="Another replay is running. Try again when it has ended.",
            retry_after=5,
        )

    @policies.declare(
        OPERATIONS["replayPolicy"],
        read_only=True,
        description="Reads messages from the audit log, if their content is stored there. A tenant can run "
        f"one replay at a time, and a server {MAX_RUNNING_REPLAYS}.",
        # A replay shows whether a pattern matches a message, so it reveals the text of the message.
        permissions=(audit.read,),
        body=ReplayRequest,
        reply=ReplayResult,
        errors=(CaseNotFound, RateLimited),
    )
    async def replay(self, request: RelayRequest) -> ReplayResult:
        """Replay a policy on stored messages, and count those it would have held, blocked or masked."""
        body = request.read_body(ReplayRequest)
        check_years(since=body.since, until=body.until)
        with self._limit.acquire(request.member.tenant):
            detectors = self._create_detectors()
            try:
                result = await self._run(request, body, detectors)
            finally:
                await detectors.aclose()
        self._policy_repository.record_event(
            request.member,
            f"{request.member.name} replayed the policy {result.policy_name} on stored messages.",
            {
                "operation": "REPLAYED",
                "policyId": result.policy_id,
                "policyName": result.policy_name,
                "policyVersion": result.policy_version,
                "read": result.read,
                "outcomes": dict(result.outcomes),
            },
        )
        return result

    async def _run(
        self, request: RelayRequest, body: ReplayRequest, detectors: DetectorRegistry
    ) -> ReplayResult:
        member, now = request.member, self._policy_repository.now()
        until = body.until or now
        return await replay_policy(
            await load_sample_policy(body.policy, member.tenant, detectors, self._policy_repository),
            store=self._store,
            tenant=member.tenant,
            audit_filter=AuditFilter(
                since=body.since or until - DEFAULT_PERIOD,
                until=until,
                source_agent=body.source_agent_id,
                source_user=body.source_user_id,
                sink_agent=body.sink_agent_id,
            ),
            limits=body.limits,
            detectors=detectors,
            monotonic=self._monotonic,
            now=now,
        )
