"""The policies API as a member uses it, without HTTP."""

import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from placet.bootstrap.storage import open_memory_store
from placet.errors import CaseNotFound
from placet.http.route import Route
from placet.ports.audit_store import AuditFilter
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.relay.audit.audit_log import AuditLog
from placet.relay.detectors.registry import DetectorRegistry, load_detectors
from placet.relay.inspection.policy_cache import PolicyCache
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.policy import Policy
from placet.relay.registry import LiveRegistry, snapshot_from_settings
from placet.relay.settings import AgentSettings, RelaySettings
from placet.relay.tenants import PERMISSIONS, Membership, require_permissions
from placet.relay.transports.admin_api.access import RelayRequest
from placet.relay.transports.admin_api.bindings import BindingApi, PolicyGroupApi
from placet.relay.transports.admin_api.evaluation import EvaluationApi, ReplayApi
from placet.relay.transports.admin_api.policies import PolicyApi
from placet.testing.clock import FakeClock


class PolicyApiClient:
    """A tenant's operator before the API."""

    def __init__(
        self,
        store: Store,
        detectors: DetectorRegistry,
        clock: FakeClock,
        settings_policies: Sequence[Policy] = (),
    ) -> None:
        self.store = store
        self.clock = clock
        self.trail = AuditLog(store, now=clock)
        self.detectors = detectors
        self.policy_repository = PolicyRepository(
            store, audit_log=self.trail, now=clock, settings_policies=settings_policies
        )
        self.policy_cache = PolicyCache(self.policy_repository, detectors)
        settings = RelaySettings(agents={"b": AgentSettings(url="https://b.example")})
        registry = LiveRegistry(snapshot_from_settings(settings, {}), store=store)
        self.routes: tuple[Route, ...] = (
            *EvaluationApi(self.policy_repository, detectors, self.policy_cache, registry).routes(),
            *ReplayApi(
                self.policy_repository, store, create_detectors=load_detectors, monotonic=time.monotonic
            ).routes(),
            *PolicyApi(self.policy_repository, detectors).routes(),
            *PolicyGroupApi(self.policy_repository).routes(),
            *BindingApi(self.policy_repository, registry).routes(),
        )

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        tenant: str = "default",
        permissions: frozenset[str] = PERMISSIONS,
        if_match: str | None = None,
        **query: str,
    ) -> Any:
        """The answer as it would travel."""
        member = Membership(principal=Principal(name="olga"), tenant=tenant, permissions=permissions)
        route, found = self._route(method, f"/relay/v1{path}")
        require_permissions(member, *route.permissions)
        request = RelayRequest(
            principal=member.principal,
            member=member,
            path=found,
            query=query,
            body=body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body),
            if_match=if_match,
        )
        answer = await route.handler(request)
        return None if answer is None else msgspec.json.decode(msgspec.json.encode(answer))

    async def events(self, tenant: str = "default") -> list[dict[str, Any]]:
        """The audit, the oldest first."""
        await self.trail.flush()
        rows, _ = await self.store.list_audit_events(tenant, AuditFilter(), page=0, size=200, order="oldest")
        return [msgspec.json.decode(row.body) for row in rows]

    def _route(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        for route in sorted(self.routes, key=lambda one: "{" in one.path):
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path)
            found = re.fullmatch(pattern, path)
            if found is not None and route.method == method:
                return route, found.groupdict()
        raise CaseNotFound(f"{method} {path}")


@asynccontextmanager
async def open_policy_api(
    store: Store | None = None, settings_policies: Sequence[Policy] = ()
) -> AsyncIterator[PolicyApiClient]:
    """Over a store of its own, unless one is given."""
    policy_api = PolicyApiClient(
        store or open_memory_store(), load_detectors(), FakeClock(), settings_policies
    )
    try:
        await policy_api.policy_cache.open()
        yield policy_api
    finally:
        await policy_api.trail.aclose()
        await policy_api.policy_cache.aclose()
        await policy_api.detectors.aclose()
