"""The handlers of the relay's operations on a database of this machine. They need the `relay` extra."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from placet.desk import clock
from placet.errors import ValidationFailed
from placet.http.route import Route
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.relay.audit.audit_log import AuditLog
from placet.relay.inspection.policy_cache import PolicyCache, read_settings_policies
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.inspection.replay import load_replay_detectors
from placet.relay.registry import ADMIN, LiveRegistry, RegistryEditor, snapshot_from_settings
from placet.relay.route_addresses import AGENT_PROXY
from placet.relay.settings import TENANT, RelaySettings, parse_networks
from placet.relay.tenants import DEFAULT_TENANT, PERMISSIONS, Membership
from placet.relay.transports.admin_api.access import RelayRequest
from placet.relay.transports.admin_api.audit import AuditApi
from placet.relay.transports.admin_api.bindings import BindingApi, PolicyGroupApi
from placet.relay.transports.admin_api.evaluation import EvaluationApi, ReplayApi
from placet.relay.transports.admin_api.policies import PolicyApi
from placet.relay.transports.admin_api.registry import AgentsApi, CallersApi, GroupsApi
from placet.settings import Settings

OPERATOR = Principal(name="operator", scopes=frozenset({ADMIN}))
LocalRoutes = Callable[[Store, Settings], AbstractAsyncContextManager[tuple[Route, ...]]]


def build_operator_request(tenant: str | None) -> Callable[..., RelayRequest]:
    """Return what builds requests of the operator, who has every permission in every tenant.

    Raises ValidationFailed for a name that no tenant can have.
    """
    tenant = DEFAULT_TENANT if tenant is None else tenant
    if not TENANT.fullmatch(tenant):
        raise ValidationFailed("A tenant's name has at most 63 characters: a-z, 0-9 and -.")
    member = Membership(principal=OPERATOR, tenant=tenant, permissions=PERMISSIONS)
    return partial(RelayRequest, principal=OPERATOR, member=member)


@asynccontextmanager
async def _open_audit_routes(store: Store, settings: Settings) -> AsyncIterator[tuple[Route, ...]]:
    yield AuditApi(store, AuditLog(store, now=clock.now), now=clock.now).routes()


@asynccontextmanager
async def _open_registry_routes(store: Store, settings: Settings) -> AsyncIterator[tuple[Route, ...]]:
    relay = settings.relay or RelaySettings()
    members = LiveRegistry(
        snapshot_from_settings(relay, os.environ),
        store=store,
        monotonic=clock.monotonic,
        allow_loopback=settings.allow_loopback,
        networks=parse_networks(relay),
    )
    editor = RegistryEditor(
        store, members, build_event=AuditLog(store, now=clock.now).build_change_event, now=clock.now
    )
    yield (
        *AgentsApi(editor, relay_url=f"{settings.public_url}{AGENT_PROXY}").routes(),
        *CallersApi(editor).routes(),
        *GroupsApi(editor).routes(),
    )


@asynccontextmanager
async def _open_policy_routes(store: Store, settings: Settings) -> AsyncIterator[tuple[Route, ...]]:
    relay = settings.relay or RelaySettings()
    settled = [] if relay.policies is None else read_settings_policies(relay.policies, now=clock.now())
    audit_log = AuditLog(store, now=clock.now)
    policies = PolicyRepository(store, audit_log=audit_log, now=clock.now, settings_policies=settled)
    members = LiveRegistry(snapshot_from_settings(relay, os.environ), store=store)
    detectors = load_replay_detectors()
    cache = PolicyCache(policies, detectors)
    try:
        yield (
            *EvaluationApi(policies, detectors, cache, members).routes(),
            *ReplayApi(
                policies, store, create_detectors=load_replay_detectors, monotonic=clock.monotonic
            ).routes(),
            *PolicyApi(policies, detectors).routes(),
            *PolicyGroupApi(policies).routes(),
            *BindingApi(policies, members).routes(),
        )
    finally:
        await cache.aclose()
        await audit_log.aclose()
        await detectors.aclose()


LOCAL_ROUTES: Mapping[str, LocalRoutes] = {
    "audit": _open_audit_routes,
    "policies": _open_policy_routes,
    "registry": _open_registry_routes,
}
"""By what they manage."""
