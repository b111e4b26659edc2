"""Build the relay from the settings and the parts of the server."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver
from msgspec import Struct

from placet.desk.new_deliveries import RELAY
from placet.desk.review_desk import ReviewDesk
from placet.errors import NotPermitted, Unavailable
from placet.http.route import Route
from placet.ports.courier import Courier
from placet.ports.identity import Principal
from placet.ports.relay_store import RelayStore
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention import RetentionJob, TenantRetention
from placet.relay.detectors.registry import load_detectors
from placet.relay.holds.hold_creator import HoldCreator
from placet.relay.holds.hold_notifier import HoldNotifier
from placet.relay.holds.resolution import HoldResolver
from placet.relay.holds.review_case import build_case_owner
from placet.relay.inspection.policy_cache import PolicyCache, read_settings_policies
from placet.relay.inspection.policy_inspector import PolicyInspector
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.inspection.replay import load_replay_detectors
from placet.relay.policy.policy import Policy
from placet.relay.push import COURIER, PushCourier, PushOutbox, PushProxy, SecretBox, WebhookRepository
from placet.relay.registry import LiveRegistry, RegistryEditor, check_credentials, snapshot_from_settings
from placet.relay.route_addresses import AGENT_PROXY, WEBHOOKS
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.runtime.notifications import NotificationHandler
from placet.relay.runtime.resumption import HeldMessageForwarder, HoldResumer, RelayCourier, ReleaseScheduler
from placet.relay.settings import RelaySettings, limits_from_settings, parse_networks
from placet.relay.tasks.access import TaskAccess
from placet.relay.tasks.relay_tasks import RelayTasks, TaskWaiters
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.transports.admin_api.access import RelayAccess
from placet.relay.transports.admin_api.approvals import ApprovalApi, approvals
from placet.relay.transports.admin_api.audit import AuditApi, TenantApi
from placet.relay.transports.admin_api.bindings import BindingApi, PolicyGroupApi
from placet.relay.transports.admin_api.evaluation import EvaluationApi, ReplayApi
from placet.relay.transports.admin_api.policies import PolicyApi
from placet.relay.transports.admin_api.registry import AgentsApi, CallersApi, GroupsApi
from placet.relay.transports.http import RelayApp
from placet.relay.transports.request_reading import App, Authenticate, ReadBody
from placet.relay.transports.route_table import A2A_ROUTES, RELAY_TAGS
from placet.relay.transports.webhooks import WebhookEndpoint
from placet.relay.upstream.agent_cards import AgentCardCache
from placet.relay.upstream.agent_client import AgentAvailability, AgentClient

if TYPE_CHECKING:
    from placet.relay.transports.grpc import GrpcServer


class RelayDependencies(Struct, frozen=True, kw_only=True):
    """What the relay needs from the server."""

    settings: RelaySettings
    store: RelayStore
    desk: ReviewDesk
    wake_outbox: Callable[[], None]
    """Wakes the outbox after a delivery was added."""
    environ: Mapping[str, str]
    public_url: str
    allow_loopback: bool
    resolver: AbstractResolver
    authenticate: Authenticate
    read_body: ReadBody
    check_push: Callable[[str], Awaitable[None]]
    post: Courier
    """Sends requests to addresses that callers gave."""
    secret: str
    """The server's secret, from which the encryption key is derived."""
    now: Callable[[], datetime]
    monotonic: Callable[[], float]


class Relay:
    """The relay with its ASGI apps, routes, couriers and background tasks."""

    def __init__(self, dependencies: RelayDependencies) -> None:
        self.dependencies = dependencies
        self.registry = _build_registry(dependencies)
        self.tenant_retention = _build_tenant_retention(dependencies)
        self.audit_log = AuditLog(
            dependencies.store, now=dependencies.now, get_payload_mode=self.tenant_retention.get_payload_mode
        )
        self.retention = RetentionJob(dependencies.store, self.tenant_retention, now=dependencies.now)
        self.detectors = load_detectors()
        self.policy_repository = PolicyRepository(
            dependencies.store,
            audit_log=self.audit_log,
            now=dependencies.now,
            settings_policies=_read_settings_policies(dependencies),
        )
        self.policy_cache = PolicyCache(self.policy_repository, self.detectors)
        self.push_proxy = PushProxy(_build_webhook_repository(dependencies), dependencies.check_push)
        self.push_outbox = PushOutbox(dependencies.store, now=dependencies.now, wake=dependencies.wake_outbox)
        self.tasks = TaskRepository(dependencies.store, now=dependencies.now, queue=self.audit_log.queue)
        self.hold_creator = self._build_hold_creator()
        self.waiters = TaskWaiters(self.tasks)
        self.resolver = self._build_resolver()
        self.release_scheduler = ReleaseScheduler(
            dependencies.store, now=dependencies.now, wake_outbox=dependencies.wake_outbox
        )
        self.app = self._build_app()
        self.hold_courier = RelayCourier(self._build_resumer())
        self.routes = (*A2A_ROUTES, *self._build_routes())
        """All routes of the relay. `asgi_apps` serves those of A2A."""
        self.tags = RELAY_TAGS
        self.access = RelayAccess(self.routes, self.registry)
        self.grpc = self._build_grpc_server()
        self.asgi_apps: dict[str, App] = {
            AGENT_PROXY: self.app,
            WEBHOOKS: self._build_webhook_endpoint(),
        }
        """Raw ASGI apps by path prefix. They authenticate their requests themselves."""
        self.couriers: dict[str, Courier] = {
            COURIER: PushCourier(self.push_proxy.webhooks, dependencies.post),
            RELAY: self.hold_courier,
        }
        """The couriers of deliveries in the outbox, by name."""
        self._background_tasks: list[asyncio.Task[None]] = []

    def _build_hold_creator(self) -> HoldCreator:
        dependencies = self.dependencies
        return HoldCreator(
            store=dependencies.store,
            desk=dependencies.desk,
            tasks=self.tasks,
            access=TaskAccess(self.tasks),
            audit_log=self.audit_log,
            now=dependencies.now,
            timeout=dependencies.settings.hold_timeout,
            max_pending=dependencies.settings.max_pending_holds,
            notifier=HoldNotifier(
                dependencies.store,
                dependencies.settings.notices,
                public_url=dependencies.public_url,
                now=dependencies.now,
                wake=dependencies.wake_outbox,
            ),
        )

    def _build_app(self) -> RelayApp:
        dependencies, settings = self.dependencies, self.dependencies.settings
        limits = limits_from_settings(settings)
        upstream = AgentClient(
            resolver=dependencies.resolver,
            limits=limits,
            availability=AgentAvailability(self.release_scheduler.release_waiting),
        )
        directory = AgentCardCache(
            upstream=upstream,
            address=lambda agent_id: f"{dependencies.public_url}{AGENT_PROXY}{agent_id}",
            monotonic=dependencies.monotonic,
            allow_loopback=dependencies.allow_loopback,
            networks=parse_networks(settings),
            get_grpc_address=self._get_grpc_address,
        )
        inspector = PolicyInspector(
            self.policy_cache,
            holder=self.hold_creator,
            audit_log=self.audit_log,
            now=dependencies.now,
            stream_window=settings.stream_window,
            stream_carry=settings.stream_carry,
        )
        calls = CallHandler(
            upstream=upstream,
            directory=directory,
            access=TaskAccess(self.tasks),
            inspector=inspector,
            limits=limits,
            pushes=self.push_proxy,
            outbox=self.push_outbox,
            relay_tasks=RelayTasks(self.tasks, dependencies.now, held_tasks=self.resolver),
            waiters=self.waiters,
            holds=self.hold_creator,
            now=dependencies.now,
        )
        return RelayApp(
            registry=self.registry,
            directory=directory,
            calls=calls,
            authenticate=dependencies.authenticate,
            read_body=dependencies.read_body,
            audit_log=self.audit_log,
            public_cards=settings.public_cards,
        )

    def _build_resolver(self) -> HoldResolver:
        dependencies = self.dependencies
        dependencies.store.add_change_listener(self.waiters.wake_all)
        return HoldResolver(
            store=dependencies.store,
            desk=dependencies.desk,
            tasks=self.tasks,
            waiters=self.waiters,
            audit_log=self.audit_log,
            now=dependencies.now,
        )

    def _build_resumer(self) -> HoldResumer:
        calls = self.app.calls
        return HoldResumer(
            resolver=self.resolver,
            forwarding=HeldMessageForwarder(calls),
            registry=self.registry,
            tasks=self.tasks,
            notify_caller=calls.notifier.notify,
        )

    def _build_webhook_endpoint(self) -> WebhookEndpoint:
        dependencies = self.dependencies
        calls, webhooks = self.app.calls, self.push_proxy.webhooks
        return WebhookEndpoint(
            notifications=NotificationHandler(
                calls=calls,
                webhooks=webhooks,
                registry=self.registry,
                outbox=self.push_outbox,
                audit_log=self.audit_log,
                monotonic=dependencies.monotonic,
            ),
            webhooks=webhooks,
            limits=calls.limits,
            read_body=dependencies.read_body,
            monotonic=dependencies.monotonic,
        )

    def _build_grpc_server(self) -> "GrpcServer | None":
        dependencies = self.dependencies
        if dependencies.settings.grpc is None:
            return None
        from placet.relay.transports.grpc import GrpcServer

        return GrpcServer(
            dependencies.settings.grpc,
            app=self.app,
            registry=self.registry,
            authenticate=dependencies.authenticate,
        )

    def _get_grpc_address(self) -> str | None:
        return None if self.grpc is None else self.grpc.address

    def _build_routes(self) -> list[Route]:
        """Return the routes of the relay's API."""
        dependencies = self.dependencies
        registry_editor = RegistryEditor(
            dependencies.store,
            self.registry,
            build_event=self.audit_log.build_change_event,
            now=dependencies.now,
        )
        return [
            *ApprovalApi(dependencies.store, dependencies.desk, self.resolver).routes(),
            *AgentsApi(registry_editor, relay_url=f"{dependencies.public_url}{AGENT_PROXY}").routes(),
            *CallersApi(registry_editor).routes(),
            *GroupsApi(registry_editor).routes(),
            *EvaluationApi(self.policy_repository, self.detectors, self.policy_cache, self.registry).routes(),
            *ReplayApi(
                self.policy_repository,
                dependencies.store,
                create_detectors=load_replay_detectors,
                monotonic=dependencies.monotonic,
            ).routes(),
            *PolicyApi(self.policy_repository, self.detectors).routes(),
            *PolicyGroupApi(self.policy_repository).routes(),
            *BindingApi(self.policy_repository, self.registry).routes(),
            *AuditApi(dependencies.store, self.audit_log, now=dependencies.now).routes(),
            *TenantApi(self.tenant_retention, self.audit_log).routes(),
        ]

    async def find_case_owner(self, principal: Principal) -> str | None:
        """Return the owner whose cases a principal may read and decide by the approvals API, or None."""
        try:
            member = await self.registry.membership(principal)
        except NotPermitted:
            return None
        is_permitted = {approvals.read, approvals.write} <= member.permissions
        return build_case_owner(member.tenant).name if is_permitted else None

    def concerns(self) -> list[str]:
        """Return what an operator should check. Tenants are not named, because the health check is public."""
        failed = len(self.policy_cache.failures)
        found = [f"The newest policies of {failed} tenants are not in force. See the log."] if failed else []
        if self.audit_log.is_behind:
            found.append("The audit log cannot be written. The relay refuses calls when its queue is full.")
        return found

    def check_ready(self) -> None:
        """Raise Unavailable while a detector that policies need is starting."""
        for name in self.detectors.list_starting():
            raise Unavailable(f"{name} is starting. Messages with policies that need it cannot pass yet.")

    async def start(self) -> None:
        """Load the stored state, and start the background tasks and the gRPC server."""
        await self.tenant_retention.start()
        await self.policy_cache.open()
        self._background_tasks.append(asyncio.create_task(self.retention.run()))
        if self.grpc is not None:
            await self.grpc.start()

    async def aclose(self) -> None:
        """Stop the background tasks, cancel calls in progress and close everything."""
        for task in self._background_tasks:
            task.cancel()
        await asyncio.gather(*self._background_tasks, return_exceptions=True)
        if self.grpc is not None:
            await self.grpc.aclose()
        await self.hold_courier.aclose()
        await self.app.aclose()
        await self.release_scheduler.aclose()
        await self.hold_creator.aclose()
        await self.tasks.aclose()
        await self.audit_log.aclose()
        await self.policy_cache.aclose()
        await self.detectors.aclose()


def _build_registry(dependencies: RelayDependencies) -> LiveRegistry:
    check_credentials(dependencies.settings, dependencies.environ)
    return LiveRegistry(
        snapshot_from_settings(dependencies.settings, dependencies.environ),
        store=dependencies.store,
        monotonic=dependencies.monotonic,
        allow_loopback=dependencies.allow_loopback,
        networks=parse_networks(dependencies.settings),
    )


def _build_tenant_retention(dependencies: RelayDependencies) -> TenantRetention:
    policies = {name: tenant.retention_policy for name, tenant in dependencies.settings.tenants.items()}
    return TenantRetention(dependencies.store, settings_policies=policies, now=dependencies.now)


def _read_settings_policies(dependencies: RelayDependencies) -> list[Policy]:
    path = dependencies.settings.policies
    return [] if path is None else read_settings_policies(path, now=dependencies.now())


def _build_webhook_repository(dependencies: RelayDependencies) -> WebhookRepository:
    return WebhookRepository(
        dependencies.store,
        SecretBox(dependencies.secret),
        public_url=dependencies.public_url,
        now=dependencies.now,
    )
