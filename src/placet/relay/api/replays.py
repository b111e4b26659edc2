"""`/relay/v1/policies/replay`: what a policy would have done with the traffic of the last days."""

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
from placet.relay.api.evaluation import load_policy_to_try
from placet.relay.api.policies import PATH, policies
from placet.relay.api.time_ranges import check_years
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.replay import ReplayLimits, ReplayResult, replay_policy
from placet.relay.policies.binding import BindingId
from placet.relay.policies.repository import PolicyRepository

DEFAULT_TIME = timedelta(days=1)
AT_ONCE = 2


class ReplayRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A policy, and over which messages to run it."""

    policy: Annotated[
        dict[str, Any],
        Meta(
            description="An unsaved policy as it would be POSTed, or a saved one by `policyId` and, "
            "if not the newest, `version`."
        ),
    ]
    since: Annotated[Timestamp | None, Meta(description="Default: a day before `until`.")] = None
    until: Annotated[Timestamp | None, Meta(description="Default: now. Not included.")] = None
    source_agent_id: BindingId | None = None
    source_user_id: BindingId | None = None
    sink_agent_id: BindingId | None = None
    limits: ReplayLimits = ReplayLimits()


class ReplayApi(HttpApi):
    """What is answered there. `make` gives detectors that no traffic waits for."""

    def __init__(
        self,
        policy_repository: PolicyRepository,
        store: AuditStore,
        *,
        make: Callable[[], DetectorRegistry],
        monotonic: Callable[[], float],
    ) -> None:
        self._books = policy_repository
        self._store = store
        self._make = make
        self._monotonic = monotonic
        self._turns = ConcurrencyLimit(
            each=1, together=AT_ONCE, refusal="Another replay is under way; wait for its end.", retry_after=5
        )

    @policies.search(
        f"{PATH}/replay",
        "replayPolicy",
        description="Reads messages from the audit, as far as their content is kept there. One at a time of "
        f"each tenant, and at most {AT_ONCE} on a server.",
        # Whoever may try any pattern on a text, and is told whether it fits, reads the text.
        permissions=(audit.read,),
        body=ReplayRequest,
        reply=ReplayResult,
        errors=(CaseNotFound, RateLimited),
    )
    async def replay(self, request: RelayRequest) -> ReplayResult:
        """Run a policy over stored messages, and say what would have been held, blocked or masked."""
        asked = request.read_body(ReplayRequest)
        check_years(since=asked.since, until=asked.until)
        with self._turns.take(request.member.tenant):
            detectors = self._make()
            try:
                done = await self._run(request, asked, detectors)
            finally:
                await detectors.aclose()
        self._books.note(
            request.member,
            f"{request.member.name} ran the policy {done.policy_name} over stored messages.",
            {
                "operation": "REPLAYED",
                "policyId": done.policy_id,
                "policyName": done.policy_name,
                "policyVersion": done.policy_version,
                "read": done.read,
                "outcomes": dict(done.outcomes),
            },
        )
        return done

    async def _run(
        self, request: RelayRequest, asked: ReplayRequest, detectors: DetectorRegistry
    ) -> ReplayResult:
        member, now = request.member, self._books.now()
        until = asked.until or now
        return await replay_policy(
            await load_policy_to_try(asked.policy, member.tenant, detectors, self._books),
            store=self._store,
            tenant=member.tenant,
            asked=AuditFilter(
                since=asked.since or until - DEFAULT_TIME,
                until=until,
                source_agent=asked.source_agent_id,
                source_user=asked.source_user_id,
                sink_agent=asked.sink_agent_id,
            ),
            limits=asked.limits,
            detectors=detectors,
            monotonic=self._monotonic,
            now=now,
        )
