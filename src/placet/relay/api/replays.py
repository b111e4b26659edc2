"""`/relay/v1/policies/replay`: replay a policy on stored messages."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from placet.errors import CaseNotFound, RateLimited
from placet.http.route import HttpApi
from placet.ports.audit_store import AuditFilter, AuditStore
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import RelayRequest
from placet.relay.api.audit import audit
from placet.relay.api.concurrency import ConcurrencyLimit
from placet.relay.api.evaluation import load_sample_policy
from placet.relay.api.policies import policies
from placet.relay.api.time_ranges import check_years
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.inspection.replay import ReplayLimits, ReplayResult, replay_policy
from placet.relay.policy.binding import BindingId
from placet.relay.route_addresses import OPERATIONS

DEFAULT_PERIOD = timedelta(days=1)
MAX_RUNNING = 2


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
            total=MAX_RUNNING,
            refusal="Another replay is running. Try again when it has ended.",
            retry_after=5,
        )

    @policies.declare(
        OPERATIONS["replayPolicy"],
        read_only=True,
        description="Reads messages from the audit log, if their content is stored there. A tenant can run "
        f"one replay at a time, and a server {MAX_RUNNING}.",
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
