"""Build the relay's parts from the settings and the server they run in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver
from msgspec import Struct

from placet.desk.new_deliveries import RELAY
from placet.desk.review_desk import ReviewDesk
from placet.errors import NotPermitted
from placet.http.route import Route
from placet.ports.courier import Courier
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.relay.api.a2a_routes import A2A_ROUTES
from placet.relay.api.access import RelayAccess
from placet.relay.api.agents import AgentsApi
from placet.relay.api.approvals import ApprovalApi, approvals
from placet.relay.api.audit import AuditApi
from placet.relay.api.bindings import BindingApi
from placet.relay.api.callers import CallersApi
from placet.relay.api.evaluation import EvaluationApi
from placet.relay.api.groups import GroupsApi
from placet.relay.api.policies import PolicyApi
from placet.relay.api.policy_groups import PolicyGroupApi
from placet.relay.api.replays import ReplayApi
from placet.relay.api.table import RELAY_TAGS
from placet.relay.api.tenant import TenantApi
from placet.relay.asgi import App, Authenticate, ReadBody
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention_job import RetentionJob
from placet.relay.audit.stored_audit_log import StoredAuditLog
from placet.relay.audit.tenant_retention import TenantRetention
from placet.relay.detectors.registry import DetectorRegistry, load_detectors
from placet.relay.holds.assembly import HoldSubsystem
from placet.relay.holds.hold_notifier import HoldNotifier
from placet.relay.holds.hold_service import HoldService, case_owner
from placet.relay.inspection.message_inspector import MessageInspector, PassthroughInspector
from placet.relay.inspection.policy_cache import PolicyCache, read_settings_policies
from placet.relay.inspection.policy_inspector import PolicyInspector
from placet.relay.inspection.replay import load_replay_detectors
from placet.relay.limits import limits_from_settings
from placet.relay.policies.policy import Policy
from placet.relay.policies.repository import PolicyRepository
from placet.relay.push.assembly import PushSubsystem
from placet.relay.push.courier import COURIER
from placet.relay.push.encryption import SecretBox
from placet.relay.push.outbox import PushOutbox
from placet.relay.push.push_proxy import PushProxy
from placet.relay.push.webhooks import PREFIX as WEBHOOKS
from placet.relay.push.webhooks import WebhookRepository
from placet.relay.registry.live_registry import LiveRegistry
from placet.relay.registry.registry_editor import RegistryEditor
from placet.relay.registry.registry_snapshot import check_credentials, snapshot_from_settings
from placet.relay.registry.subscriptions import Registry
from placet.relay.settings import RelaySettings, parse_networks
from placet.relay.tasks.access import TaskAccess
from placet.relay.tasks.task_repository import MemoryTaskRepository, StoredTaskRepository, TaskRepository
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.proxy import PREFIX, RelayApp
from placet.relay.upstream.agent_cards import AgentCardCache
from placet.relay.upstream.agent_client import AgentClient

if TYPE_CHECKING:
    from placet.relay.grpc.server import GrpcServer


class RelayDependencies(Struct, frozen=True, kw_only=True):
    """What the relay needs from the server that it runs in."""

    settings: RelaySettings
    store: Store
    desk: ReviewDesk
    owe: Callable[[], None]
    """Tells the outbox that something has just been put into it."""
    environ: Mapping[str, str]
    public_url: str
    allow_loopback: bool
    resolver: AbstractResolver
    authenticate: Authenticate
    read_body: ReadBody
    check_push: Callable[[str], Awaitable[None]]
    post: Courier
    """Takes a message to an address that came from outside."""
    secret: str
    """What the server seals with."""
    now: Callable[[], datetime]
    monotonic: Callable[[], float]


class Relay:
    """The whole relay: its ASGI apps, its couriers, and its background jobs."""

    def __init__(self, world: RelayDependencies) -> None:
        self.world = world
        self.members = _build_registry(world)
        self.keeping = _build_tenant_retention(world)
        self.trail = StoredAuditLog(world.store, now=world.now, payloads_for=self.keeping.payloads_for)
        self.retention = RetentionJob(world.store, self.keeping, now=world.now)
        self.detectors = load_detectors()
        settled = _read_settings_policies(world)
        self.policy_repository = PolicyRepository(
            world.store, trail=self.trail, now=world.now, settings_policies=settled
        )
        self.policy_cache = _build_policy_cache(world, self.detectors, self.policy_repository, settled)
        self.pushes = PushProxy(_build_webhook_repository(world), world.check_push)
        self.book = StoredTaskRepository(world.store, now=world.now)
        self.holds = self._holds()
        self.app = self._app()
        self.holding = HoldSubsystem(self.holds, calls=self.app.calls, registry=self.members)
        self.routes = (*A2A_ROUTES, *self._routes())
        """Every route of the relay; those of A2A are in `served`."""
        self.tags = RELAY_TAGS
        self.access = RelayAccess(self.routes, self.members)
        self.pushing = self._pushing()
        self.holding.resuming.notify_caller = self.pushing.notifier.notify
        self.grpc = self._build_grpc_server()
        self.served: dict[str, App] = {PREFIX: self.app, WEBHOOKS: self.pushing.reception}
        """Raw ASGI by the beginning of its paths; what comes here is authenticated here."""
        self.couriers: dict[str, Courier] = {COURIER: self.pushing.courier, RELAY: self.holding.courier}
        """Who takes what the outbox owes, by the name in the delivery."""
        self._beside: list[asyncio.Task[None]] = []

    def _holds(self) -> HoldService:
        world = self.world
        found = HoldService(
            store=world.store,
            desk=world.desk,
            book=self.book,
            access=TaskAccess(self.book),
            trail=self.trail,
            now=world.now,
            timeout=world.settings.hold_timeout,
            max_pending=world.settings.max_pending_holds,
        )
        found.notices = HoldNotifier(
            world.store,
            world.settings.notices,
            public_url=world.public_url,
            now=world.now,
            wake=world.owe,
        )
        return found

    def _app(self) -> RelayApp:
        world = self.world
        return build_relay_app(
            world.settings,
            environ=world.environ,
            public_url=world.public_url,
            allow_loopback=world.allow_loopback,
            resolver=world.resolver,
            authenticate=world.authenticate,
            read_body=world.read_body,
            pushes=self.pushes,
            now=world.now,
            monotonic=world.monotonic,
            registry=self.members,
            inspector=PolicyInspector(self.policy_cache, holder=self.holds, trail=self.trail, now=world.now),
            trail=self.trail,
            book=self.book,
        )

    def _pushing(self) -> PushSubsystem:
        world = self.world
        return PushSubsystem(
            self.pushes,
            notices=PushOutbox(world.store, now=world.now, wake=world.owe),
            calls=self.app.calls,
            registry=self.members,
            trail=self.trail,
            read_body=world.read_body,
            post=world.post,
            monotonic=world.monotonic,
        )

    def _build_grpc_server(self) -> "GrpcServer | None":
        world = self.world
        if world.settings.grpc is None:
            return None
        from placet.relay.grpc.server import GrpcServer

        door = GrpcServer(
            world.settings.grpc,
            app=self.app,
            registry=self.members,
            authenticate=world.authenticate,
        )
        self.app.directory.grpc_address = lambda: door.address
        return door

    def _routes(self) -> list[Route]:
        """Every address of the API."""
        world = self.world
        enrolment = RegistryEditor(world.store, self.members, tell=self.trail.change, now=world.now)
        return [
            *ApprovalApi(world.store, world.desk, self.holding.settling).routes(),
            *AgentsApi(enrolment, relay_url=f"{world.public_url}{PREFIX}").routes(),
            *CallersApi(enrolment).routes(),
            *GroupsApi(enrolment).routes(),
            *EvaluationApi(self.policy_repository, self.detectors, self.policy_cache, self.members).routes(),
            *ReplayApi(
                self.policy_repository, world.store, make=load_replay_detectors, monotonic=world.monotonic
            ).routes(),
            *PolicyApi(self.policy_repository, self.detectors).routes(),
            *PolicyGroupApi(self.policy_repository).routes(),
            *BindingApi(self.policy_repository, self.members).routes(),
            *AuditApi(world.store, self.trail, now=world.now).routes(),
            *TenantApi(self.keeping, self.trail).routes(),
        ]

    async def find_case_owner(self, principal: Principal) -> str | None:
        """Whose cases a principal may read and decide through the approvals API; None: nobody's."""
        try:
            member = await self.members.membership(principal)
        except NotPermitted:
            return None
        may = {approvals.read, approvals.write} <= member.permissions
        return case_owner(member.tenant).name if may else None

    def concerns(self) -> list[str]:
        """What an operator should look at, without any tenant's name: whoever asks may be anyone."""
        failed = len(self.policy_cache.failures)
        found = [f"The newest policies of {failed} tenants are not in force."] if failed else []
        if self.trail.behind:
            found.append("The audit cannot be written; calls are refused once too many events wait.")
        return found

    async def start(self) -> None:
        """Begin what goes on beside requests."""
        await self.keeping.start()
        await self.policy_cache.open()
        self._beside.append(asyncio.create_task(self.retention.run()))
        if self.grpc is not None:
            await self.grpc.start()

    async def aclose(self) -> None:
        """End it, and give up what is under way."""
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self.grpc is not None:
            await self.grpc.aclose()
        await self.holding.aclose()
        await self.app.aclose()
        await self.holds.aclose()
        await self.book.aclose()
        await self.trail.aclose()
        await self.policy_cache.aclose()
        await self.detectors.aclose()


def _build_registry(world: RelayDependencies) -> LiveRegistry:
    check_credentials(world.settings, world.environ)
    return LiveRegistry(
        snapshot_from_settings(world.settings, world.environ),
        store=world.store,
        monotonic=world.monotonic,
        allow_loopback=world.allow_loopback,
        networks=parse_networks(world.settings),
    )


def _build_tenant_retention(world: RelayDependencies) -> TenantRetention:
    settled = {name: tenant.keeping for name, tenant in world.settings.tenants.items()}
    return TenantRetention(world.store, settled=settled, now=world.now)


def _read_settings_policies(world: RelayDependencies) -> list[Policy]:
    named = world.settings.policies
    return [] if named is None else read_settings_policies(named, now=world.now())


def _build_policy_cache(
    world: RelayDependencies,
    detectors: DetectorRegistry,
    policy_repository: PolicyRepository,
    settled: list[Policy],
) -> PolicyCache:
    policy_cache = PolicyCache(
        world.store, detectors, now=world.now, settings_policies=settled, read=policy_repository.library
    )
    policy_repository.changed = policy_cache.reload
    return policy_cache


def _build_webhook_repository(world: RelayDependencies) -> WebhookRepository:
    return WebhookRepository(world.store, SecretBox(world.secret), public_url=world.public_url, now=world.now)


def build_relay_app(
    settings: RelaySettings,
    *,
    environ: Mapping[str, str],
    public_url: str,
    allow_loopback: bool,
    resolver: AbstractResolver,
    authenticate: Authenticate,
    read_body: ReadBody,
    pushes: PushProxy,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
    registry: Registry | None = None,
    inspector: MessageInspector | None = None,
    trail: AuditLog | None = None,
    book: TaskRepository | None = None,
) -> RelayApp:
    """The relaying path of these settings."""
    limits = limits_from_settings(settings)
    upstream = AgentClient(resolver=resolver, limits=limits)
    directory = AgentCardCache(
        upstream=upstream,
        address=lambda agent_id: f"{public_url}{PREFIX}{agent_id}",
        monotonic=monotonic,
        allow_loopback=allow_loopback,
        networks=parse_networks(settings),
    )
    calls = CallHandler(
        upstream=upstream,
        directory=directory,
        access=TaskAccess(book or MemoryTaskRepository()),
        inspector=inspector or PassthroughInspector(),
        limits=limits,
        pushes=pushes,
        now=now,
    )
    return RelayApp(
        registry=registry or LiveRegistry(snapshot_from_settings(settings, environ)),
        directory=directory,
        calls=calls,
        authenticate=authenticate,
        read_body=read_body,
        trail=trail,
        public_cards=settings.public_cards,
    )
