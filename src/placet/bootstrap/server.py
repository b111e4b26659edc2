"""Builds the parts of a server from its settings. No other module connects them."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.routing import Router
from starlette.types import ASGIApp

from placet.bootstrap.storage import open_store
from placet.bootstrap.verification import build_verification
from placet.cases.case import Case, Subject
from placet.cases.log_checkpoint import LogCheckpoint, SignedCheckpoint
from placet.cases.review_rules import ReviewRules
from placet.deliveries.guarded_http import GuardedHttp
from placet.deliveries.guarded_resolver import GuardedResolver, SystemLookup
from placet.deliveries.webhook import WebhookCourier
from placet.desk import clock, random_values
from placet.desk.case_urls import CaseUrls
from placet.desk.log_checkpoints import make_checkpoint
from placet.desk.notifications import NOTIFY, CaseNotifications
from placet.desk.outbox import Outbox
from placet.desk.page_verification import PageVerification
from placet.desk.review_desk import ReviewDesk
from placet.desk.sweep import Sweep
from placet.errors import PlacetError
from placet.extras import is_available
from placet.http.asgi import Receive, Scope, read_body
from placet.http.route import Route, get_first_step
from placet.http.routing import RouteServer
from placet.notify.bootstrap import Notifier, build_case_notifications, build_push_sender, read_push_key
from placet.pages.renderer import PageRenderer
from placet.pages.theme import Theme, load_built_in_theme, read_theme
from placet.ports.case_store import CaseCreation, CaseUpdate
from placet.ports.courier import Courier
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.discovery import ServiceCard, ServiceDetails
from placet.relay.route_addresses import AGENT_PROXY, RELAY_PATHS, WEBHOOKS
from placet.relay.settings import RelaySettings, parse_networks
from placet.reviews.registry import REVIEW_TYPES, SAMPLES, load_custom_type, load_review_type
from placet.server.api_description import build_openapi_document
from placet.server.api_key_auth import ApiKeyAuthenticator
from placet.server.app import PlacetApp
from placet.server.background_tasks import BackgroundTasks
from placet.server.case_api import CaseApi, authorize_caller
from placet.server.case_sessions import CaseSessions
from placet.server.cross_origin import CrossOriginApp
from placet.server.demo import DemoPages
from placet.server.endpoint_api import EndpointApi
from placet.server.error_pages import ErrorPages
from placet.server.evaluation_process import EvaluationProcess
from placet.server.grant_api import GrantApi
from placet.server.home_page import HomePage
from placet.server.inbox_pages import InboxPages
from placet.server.inbox_sessions import InboxSessions
from placet.server.metrics import Meter
from placet.server.page_replies import PageReplies
from placet.server.page_requests import PageAccess
from placet.server.passkey_pages import PasskeyPages
from placet.server.poll_limiter import PollLimiter
from placet.server.polling import StatusPoll
from placet.server.prefill import Prefill
from placet.server.public_api import PublicApi
from placet.server.review_pages import Identify, ReviewPages
from placet.server.static_files import StaticFiles
from placet.server.streams import EventStreams
from placet.server.verification_pages import VerificationPages
from placet.settings import Settings
from placet.signing.checkpoint_signature import sign_checkpoint
from placet.signing.prefill_token import sign_prefill_token
from placet.signing.stored_signer import StoredSigner, read_published_keys

if TYPE_CHECKING:
    from placet.notify.web_push import WebPushSender
    from placet.relay.bootstrap import Relay
    from placet.server.serving import ServedApp
    from placet.server.tracing import TracedApp

log = logging.getLogger("placet")

RELAY_STEPS = frozenset(map(get_first_step, RELAY_PATHS))
RELAY_CHECK_INTERVAL_S = 0.25
KEY_RETRY_DELAY_S = 5.0

Authenticate = Callable[[Scope], Awaitable[Principal]]
Clock = Callable[[], datetime]


class ServerParts:
    """The parts of a server: the ASGI app, the desk, and the background tasks with their start and stop."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        signer: StoredSigner | None,
        secret: str,
        now: Clock,
        authenticate: Authenticate | None,
        verifier: EvidenceVerifier | None,
        review_types: Mapping[str, ReviewRules],
        identify: Identify | None,
        push_key: str | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self._signer = signer
        self._secret = secret
        self._now = now
        self._identify = identify
        self.http = GuardedHttp(allow_loopback=settings.allow_loopback)
        self.addresses = CaseUrls(settings.public_url)
        self.evaluator = EvaluationProcess()
        self._notifications = self._build_case_notifications()
        self._verification = build_verification(
            settings, store=store, http=self.http, environ=os.environ, verifier=verifier, now=now
        )
        self.desk = self._build_desk(review_types)
        self.authenticate = authenticate or ApiKeyAuthenticator(store=store, clock=now)
        # A service that authenticates requests does not use our keys, with which people sign in.
        self._inbox_sessions = self._build_inbox_sessions() if authenticate is None else None
        self.couriers: dict[str, Courier] = {"webhook": _build_webhook_courier(self.http, settings)}
        self._push = self._build_push_sender(push_key)
        self._notifier = self._build_notifier()
        self.outbox = Outbox(store=store, couriers=self.couriers, clock=now)
        self.streams = EventStreams(self.desk)
        self.meter = Meter(
            open_streams=lambda: len(self.streams),
            storage_health=store.read_health,
            refused_by_quota=lambda: self.desk.quotas.refused,
        )
        self.background_tasks = BackgroundTasks(
            desk=self.desk,
            store=store,
            sweep=Sweep(self.desk),
            outbox=self.outbox,
            streams=self.streams,
            make_checkpoint=None if signer is None else _build_checkpoint_maker(store, signer, now),
        )
        store.add_change_listener(self._refresh_signing_keys)
        self._refreshing: asyncio.Task[None] | None = None
        self.relay: Relay | None = None
        self._lookup: SystemLookup | None = None
        self._mounted: dict[str, ASGIApp] = {}
        self._next_relay_check = 0.0
        self._relay_start = asyncio.Lock()
        self._description: dict[str, Any] | None = None
        theme = read_theme(Path(settings.theme)) if settings.theme else load_built_in_theme()
        self.renderer = PageRenderer(theme=theme)
        self.replies = PageReplies(self.addresses, theme, settings.frame_ancestors)
        self.routes = self._build_routes(theme)
        build_starlette_routes = self._build_route_server().build_starlette_routes(self.routes)
        self.router = Router(routes=build_starlette_routes, redirect_slashes=False)
        self.app = _wrap_app(self._build_app(), settings)

    def _build_desk(self, review_types: Mapping[str, ReviewRules]) -> ReviewDesk:
        verifier, methods = self._verification.verifier, self._verification.methods
        return ReviewDesk(
            store=self.store,
            review_types=review_types,
            custom_type=load_custom_type(),
            addresses=self.addresses,
            clock=self._now,
            limits=self.settings.limits,
            signer=self._signer,
            verifier=verifier,
            proof_sources=(
                *(verifier.sources if verifier else ()),
                *(method.source for method in methods),
            ),
            evaluator=self.evaluator,
            check_callback=self.http.check_resolves,
            service_name=self.settings.service_name,
            four_eyes=self.settings.four_eyes,
            notifications=self._notifications,
            observe=self._observe,
        )

    def _build_case_notifications(self) -> CaseNotifications | None:
        if self.settings.notify is None:
            return None
        return build_case_notifications(
            self.settings.notify,
            outbox=self.store,
            secret=self._secret,
            message_id=random_values.generate_message_id,
        )

    def _build_push_sender(self, private_key: str | None) -> "WebPushSender | None":
        if self.settings.notify is None or private_key is None:
            return None
        return build_push_sender(
            self.settings.notify,
            store=self.store,
            http=self.http,
            private_key=private_key,
            public_url=self.settings.public_url,
            now=self._now,
        )

    def _build_notifier(self) -> Notifier | None:
        """Return what sends notifications, and add its courier."""
        if self.settings.notify is None or self._notifications is None:
            return None
        notifier = Notifier(
            self.settings.notify,
            desk=self.desk,
            notifications=self._notifications,
            outbox=self.store,
            secret=self._secret,
            environ=os.environ,
            push=self._push,
        )
        self.couriers[NOTIFY] = notifier.courier
        return notifier

    def _build_inbox_sessions(self) -> InboxSessions:
        return InboxSessions(
            keys=self.store,
            secret=self._secret,
            clock=self._now,
            monotonic=clock.monotonic,
            held_owner=self._get_held_owner,
        )

    def _build_app(self) -> PlacetApp:
        return PlacetApp(
            routes=self.routes,
            router=self.router,
            streams=self.streams,
            meter=self.meter,
            start=self.start,
            stop=self.stop,
            log_requests=self.settings.log_requests,
            mounted=self._mounted,
            before_routing=self._start_relay_if_needed,
            build_error_page=ErrorPages(renderer=self.renderer, replies=self.replies).build,
            later_paths=(*RELAY_PATHS, *(route.path for route in DemoPages.list_declared_routes())),
        )

    async def wants_relay(self) -> bool:
        """Return whether the relay is enabled, or an agent is in the settings or in the store."""
        relay = self.settings.relay
        if relay is not None and (relay.agents or relay.enabled):
            return True
        return bool(await self.store.list_records("agent"))

    async def _start_relay_if_needed(self, path: str, scope: Scope) -> None:
        """Start the relay once an agent is registered, also by another process while the server runs.

        An administrator may register the first agent by the API, so a call of one also starts the relay.
        """
        if self.relay is not None or get_first_step(path) not in RELAY_STEPS:
            return
        is_managed = await self._is_managed_by_administrator(path, scope)
        if not is_managed and clock.monotonic() < self._next_relay_check:
            return
        async with self._relay_start:
            try:
                if self.relay is None and (is_managed or await self.wants_relay()):
                    self._serve_relay(await _start_relay(self._build_relay()))
            finally:
                self._next_relay_check = clock.monotonic() + RELAY_CHECK_INTERVAL_S

    async def _is_managed_by_administrator(self, path: str, scope: Scope) -> bool:
        """Whether an administrator calls the API with which agents, callers and policies are managed."""
        if path.startswith((AGENT_PROXY, WEBHOOKS)) or not is_available("relay"):
            return False
        try:
            return "admin" in (await self.authenticate(scope)).scopes
        except PlacetError:  # the route answers it
            return False

    def add_relay(self) -> None:
        """Add the relay before the server starts."""
        self._serve_relay(self._build_relay())

    def _build_relay(self) -> "Relay":
        # Imported here, so that a server without a relay starts faster.
        from placet.relay.bootstrap import Relay, RelayDependencies

        settings = self.settings
        if self._lookup is None:
            self._lookup = SystemLookup()
        relay = settings.relay or RelaySettings()
        return Relay(
            RelayDependencies(
                settings=relay,
                store=self.store,
                desk=self.desk,
                wake_outbox=self.background_tasks.wake_outbox,
                environ=os.environ,
                public_url=settings.public_url,
                allow_loopback=settings.allow_loopback,
                resolver=GuardedResolver(
                    self._lookup,
                    allow_loopback=settings.allow_loopback,
                    networks=parse_networks(relay),
                ),
                authenticate=self.authenticate,
                read_body=_read_at_most,
                check_push=self.http.check_resolves,
                post=self.couriers["webhook"],
                secret=self._secret,
                now=self._now,
                monotonic=clock.monotonic,
            )
        )

    def _serve_relay(self, relay: "Relay") -> None:
        self.streams.add_close_callback(relay.app.streams.close)
        self.couriers.update(relay.couriers)
        server = RouteServer(
            authenticate=self.authenticate,
            authorize=relay.access.authorize,
            max_body_bytes=self.settings.limits.max_body_bytes,
        )
        self.router.routes.extend(server.build_starlette_routes(relay.routes))
        self.routes += relay.routes
        self._mounted.update(relay.asgi_apps)
        self.relay = relay

    def _build_route_server(self) -> RouteServer:
        return RouteServer(
            authenticate=self.authenticate,
            authorize=authorize_caller,
            max_body_bytes=self.settings.limits.max_body_bytes,
        )

    def _build_routes(self, theme: Theme) -> tuple[Route, ...]:
        """Return the route table of the server, without those of the relay and the demo."""
        return (
            *self._build_case_api().routes(),
            *EndpointApi(desk=self.desk, outbox=self.outbox, deliveries=self.store).routes(),
            *GrantApi(self.desk.grants).routes(),
            *self._build_public_api().routes(),
            *self._build_review_pages().routes(),
            *self._build_passkey_routes(),
            *self._build_inbox_routes(),
            *(self._notifier.receiver.routes() if self._notifier is not None else ()),
            *StaticFiles(theme.files).routes(),
        )

    def _build_case_api(self) -> CaseApi:
        limiter = PollLimiter(per_minute=self.settings.polls_per_minute, monotonic=clock.monotonic)
        return CaseApi(
            desk=self.desk,
            authenticate=self.authenticate,
            poll=StatusPoll(self.desk, limiter),
            streams=self.streams,
            base_url=self.addresses.base,
        )

    async def _check_ready(self) -> None:
        await self.store.check_ready()
        if self.relay is not None:
            self.relay.check_ready()

    def _build_public_api(self) -> PublicApi:
        return PublicApi(
            check_ready=self._check_ready,
            card=build_service_card(self.settings),
            meter=self.meter,
            jwks=self._read_jwks,
            openapi=self._describe_api,
            renderer=self.renderer,
            replies=self.replies,
            concerns=self._list_concerns,
        )

    def _list_concerns(self) -> list[str]:
        """Return what an operator should look at."""
        of_relay = self.relay.concerns() if self.relay is not None else []
        return [*of_relay, *(self._notifier.receiver.list_concerns() if self._notifier is not None else ())]

    def _build_review_pages(self) -> ReviewPages:
        sessions = CaseSessions(self._secret)
        verification = VerificationPages(
            desk=self.desk,
            verification=PageVerification(
                desk=self.desk, store=self.store, methods=self._verification.methods
            ),
            access=PageAccess(self.desk, sessions, self.replies, self._inbox_sessions),
            renderer=self.renderer,
            replies=self.replies,
            load_type=load_review_type,
            find_address=self._verification.find_address,
        )
        return ReviewPages(
            desk=self.desk,
            renderer=self.renderer,
            sessions=sessions,
            load_type=load_review_type,
            prefill=Prefill(
                self.http,
                self._now,
                None if self._signer is None else partial(self._make_prefill_token, self._signer),
            ),
            replies=self.replies,
            streams=self.streams,
            identify=self._identify,
            inbox=self._inbox_sessions,
            verification=verification,
        )

    def _build_passkey_routes(self) -> tuple[Route, ...]:
        registration = PasskeyPages(
            store=self.store,
            registration=self._verification.registration,
            renderer=self.renderer,
            replies=self.replies,
            service_name=self.settings.service_name,
            clock=self._now,
        )
        return registration.routes()

    def _build_inbox_routes(self) -> tuple[Route, ...]:
        if self._inbox_sessions is None:
            return ()
        inbox = InboxPages(
            desk=self.desk,
            sessions=self._inbox_sessions,
            renderer=self.renderer,
            replies=self.replies,
            monotonic=clock.monotonic,
            push=self._push,
        )
        return (*HomePage(renderer=self.renderer, replies=self.replies).routes(), *inbox.routes())

    async def _make_prefill_token(self, signer: StoredSigner, case: Case, url: str, field: str) -> str:
        return await sign_prefill_token(
            signer,
            url=url,
            case_id=case.id,
            field=field,
            shown=case.offer_digest,
            now=self._now(),
            nonce=random_values.generate_token(),
        )

    async def _get_held_owner(self, principal: Principal) -> str | None:
        return await self.relay.find_case_owner(principal) if self.relay is not None else None

    def add_demo(self) -> DemoPages:
        """Add the demo's pages, which create cases anonymously. For loopback only."""
        demo = DemoPages(desk=self.desk, example=_build_example, renderer=self.renderer, replies=self.replies)
        # Before the other routes: the demo's front page replaces the server's.
        self.router.routes[:0] = self._build_route_server().build_starlette_routes(demo.routes())
        self.routes += demo.routes()
        return demo

    async def _read_jwks(self) -> dict[str, Any]:
        """Return the published keys, also if signing is off: earlier results can still be verified."""
        return self._signer.jwks() if self._signer is not None else await read_published_keys(self.store)

    def _describe_api(self) -> dict[str, Any]:
        url = self.settings.public_url
        if self.relay is None:
            return build_openapi_document(url)
        if self._description is None:
            self._description = build_openapi_document(url, self.relay.routes, tags=self.relay.tags)
        return self._description

    def _observe(self, written: CaseUpdate | CaseCreation) -> None:
        if isinstance(written, CaseCreation):
            self.meter.count_events(written.events)
            if written.deliveries:
                self.background_tasks.wake_outbox()
            return
        self.meter.count_events(written.step.events)
        if written.deliveries:
            self.background_tasks.wake_outbox()

    def _refresh_signing_keys(self, case_id: str | None) -> None:
        """Read the signing keys again after another process wrote to the store: it may have rotated them."""
        if case_id is None and self._signer is not None:
            self._stop_refreshing()
            self._refreshing = asyncio.create_task(self._refresh_until_read(self._signer))

    async def _refresh_until_read(self, signer: StoredSigner) -> None:
        """Read the keys until it succeeds: a revoked key must not stay in use."""
        while True:
            try:
                await signer.refresh()
                return
            except PlacetError as error:
                log.warning("signing_keys_refresh_failed error=%s", error.message)
            await asyncio.sleep(KEY_RETRY_DELAY_S)

    def _stop_refreshing(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()

    async def start(self) -> None:
        """Start the relay and the background tasks."""
        if self.relay is not None:  # first: the outbox may have deliveries for it
            await self.relay.start()
        self.background_tasks.start()
        if self._notifier is not None:
            self._notifier.receiver.start()

    async def stop(self) -> None:
        """Close streams, stop background tasks, finish accepted writes and close the store."""
        self._stop_refreshing()
        await self.streams.close()
        await self.background_tasks.stop()
        if self._notifier is not None:
            await self._notifier.aclose()
        if self.relay is not None:
            await self.relay.aclose()
        if self._lookup is not None:
            self._lookup.close()
        await self.http.aclose()
        await self.evaluator.aclose()
        await self.store.aclose()
        if self._signer is not None:
            await self._signer.aclose()


async def _start_relay(relay: "Relay") -> "Relay":
    """Start the relay and return it; close it if it cannot start."""
    try:
        await relay.start()
    except BaseException:
        await relay.aclose()
        raise
    return relay


async def _read_at_most(scope: Scope, receive: Receive, limit: int) -> bytes:
    return await read_body(scope, receive, limit=limit)


async def build(
    settings: Settings,
    *,
    store: Store | None = None,
    authenticate: Authenticate | None = None,
    verifier: EvidenceVerifier | None = None,
    review_types: Mapping[str, ReviewRules] = REVIEW_TYPES,
    identify: Identify | None = None,
    now: Clock = clock.now,
) -> ServerParts:
    """Return the parts of a server with these settings, not started. Opens the store in the running loop."""
    opened = store or await open_store(settings.db)
    try:
        secret = await opened.get_or_create_secret("sessions", random_values.generate_secret())
        signer = None
        if settings.signing != "none":
            signer = await StoredSigner.open(opened, algorithm=settings.signing, clock=now)
        parts = ServerParts(
            settings,
            store=opened,
            signer=signer,
            secret=secret,
            now=now,
            authenticate=authenticate,
            verifier=verifier,
            review_types=review_types,
            identify=identify,
            push_key=await read_push_key(settings.notify, opened),
        )
        if await parts.wants_relay():
            parts.add_relay()
    except BaseException:
        if store is None:  # the caller cannot close it
            await opened.aclose()
        raise
    return parts


def _build_checkpoint_maker(store: Store, signer: StoredSigner, now: Clock) -> Callable[[], Awaitable[None]]:
    """Return a function that signs, stores and logs a checkpoint of the log."""

    async def sign(checkpoint: LogCheckpoint) -> SignedCheckpoint:
        return await sign_checkpoint(checkpoint, signer)

    async def make() -> None:
        made = (await make_checkpoint(store, sign=sign, now=now())).checkpoint
        log.info("log_checkpoint cases=%d events=%d digest=%s", made.cases, made.events, made.digest)

    return make


def build_service_card(settings: Settings) -> ServiceCard:
    """Return the content of the discovery document."""
    limits = settings.limits
    return ServiceCard(
        base_url=settings.public_url,
        name=settings.service_name,
        description=settings.service_description,
        review_types=tuple(REVIEW_TYPES),
        default_timeout_for=limits.default_timeout_for,
        max_timeout_for=limits.max_timeout_for,
        keep_for=limits.keep_for,
        polls_per_minute=settings.polls_per_minute,
        signs_results=settings.signing != "none",
        sends_callbacks=True,
        max_open_cases=limits.max_open_cases,
        details=settings.discovery or ServiceDetails(),
    )


def _build_example(type: str) -> tuple[dict[str, Any], Subject] | None:
    kind = SAMPLES.get(type, load_custom_type() if type.startswith("x-") else None)
    return (kind.example(), Subject(entry_point=kind.entry_point)) if kind is not None else None


def _build_webhook_courier(http: GuardedHttp, settings: Settings) -> Courier:
    courier = WebhookCourier(http)
    if not settings.tracing:
        return courier
    from placet.server.tracing import TracedCourier

    return TracedCourier(courier)


def _wrap_app(app: PlacetApp, settings: Settings) -> "ServedApp":
    """Return the app with what the settings add to every request: traces, and the headers of CORS."""
    served = _trace_app(app) if settings.tracing else app
    return CrossOriginApp(served, settings.cors_origins) if settings.cors_origins else served


def _trace_app(app: PlacetApp) -> "TracedApp":
    from placet.server.tracing import TracedApp

    return TracedApp(app)
