"""The callbacks API: the addresses that receive callbacks, their secrets, and the deliveries to them."""

from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.desk import random_values
from placet.desk.draft import CallbackUrl, CaseId
from placet.desk.outbox import Outbox, end_rotation, list_active_secrets, rotate_secret
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict, CaseNotFound, RequestError, Unavailable, ValidationFailed
from placet.http.paging import PageLimit
from placet.http.route import ApiRequest, HttpApi, Parameter, RequestBody, RouteGroup, RouteReply
from placet.ports.endpoint_store import Endpoint
from placet.ports.outbox_store import Delivery, DeliveryFilter, DeliveryState, OutboxStore
from placet.protocol.timestamp import Timestamp
from placet.server.api_examples import ANSWERED_AT, ASKED_AT, CASE, RECEIVER, as_examples

ATTEMPTS = 16

callbacks = RouteGroup(
    tag="Callbacks",
    description="Receive outcomes at your own addresses instead of polling.",
    read="cases:read",
    write="cases:write",
)


class EndpointRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address to register, to enable again, or whose secret to rotate."""

    url: CallbackUrl
    rotate: Annotated[bool, Meta(description="Create a new secret; the old one also signs for a day.")] = (
        False
    )
    confirm: Annotated[
        bool, Meta(description="End the rotation: your receivers know the new secret, and it alone signs.")
    ] = False
    enable: Annotated[bool, Meta(description="Enable an address that was disabled.")] = False


class EndpointView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address with the secrets that sign what it receives."""

    url: str
    secrets: tuple[str, ...]
    created_at: Timestamp
    previous_until: Timestamp | None = None
    disabled_at: Timestamp | None = None


class EndpointList(Struct, frozen=True, kw_only=True):
    """The caller's callback addresses."""

    callbacks: tuple[EndpointView, ...]


class DeliveryView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One callback delivery and its state."""

    id: str
    case_id: str
    event: str
    target: str
    state: DeliveryState
    attempts: int
    created_at: Timestamp
    next_at: Timestamp | None = None
    last_status: int | None = None
    last_error: str | None = None
    settled_at: Timestamp | None = None


class DeliveryList(Struct, frozen=True, kw_only=True):
    """The caller's deliveries, newest first."""

    deliveries: tuple[DeliveryView, ...]


class DeliveryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries to list."""

    case_id: Annotated[CaseId | None, Meta(description="Only deliveries of this case.")] = None
    state: Annotated[DeliveryState | None, Meta(description="Only deliveries in this state.")] = None
    limit: PageLimit = 50


_ENDPOINT = EndpointView(
    url=RECEIVER, secrets=("whsec_ZXhhbXBsZS1zZWNyZXQtb2YtMzItYnl0ZXMtMDAwMDA=",), created_at=ASKED_AT
)
_DELIVERY = DeliveryView(
    id="msg_0b1c2d3e4f5061728394a5b6c7d8e9f0",
    case_id=CASE,
    event="review.completed",
    target=RECEIVER,
    state="delivered",
    attempts=1,
    created_at=ANSWERED_AT,
    last_status=200,
    settled_at=ANSWERED_AT,
)


class EndpointApi(HttpApi):
    """Handles the routes about callback addresses and what was sent to them."""

    def __init__(self, *, desk: ReviewDesk, outbox: Outbox, deliveries: OutboxStore) -> None:
        self._desk = desk
        self._outbox = outbox
        self._deliveries = deliveries

    @callbacks.get(
        "/v1/callbacks",
        "listCallbacks",
        reply=RouteReply(
            description="Your addresses.",
            model=EndpointList,
            examples=as_examples(one=EndpointList(callbacks=(_ENDPOINT,))),
        ),
    )
    async def list_callbacks(self, request: ApiRequest) -> EndpointList:
        """List your callback addresses.

        Each has the secrets that sign its callbacks: two while a secret is being rotated.
        """
        endpoints = await self._desk.store.list_endpoints(request.principal.name or "")
        return EndpointList(callbacks=tuple(self._build_view(one) for one in endpoints))

    @callbacks.post(
        "/v1/callbacks",
        "saveCallback",
        body=RequestBody(
            model=EndpointRequest,
            description="The address.",
            examples=as_examples(
                register=EndpointRequest(url=RECEIVER), rotate=EndpointRequest(url=RECEIVER, rotate=True)
            ),
        ),
        reply=RouteReply(
            description="The address with its secrets.",
            model=EndpointView,
            examples=as_examples(registered=_ENDPOINT),
        ),
    )
    async def save_callback(self, request: ApiRequest) -> EndpointView:
        """Register a callback address, or change its secret.

        Registering an address again changes nothing. `rotate` creates a new secret. For a day, or until
        `confirm`, `webhook-signature` has a signature of both secrets and `X-HITL-Signature` one of the older
        secret. `enable` enables an address that was disabled by a 410 response.
        """
        wanted = request.read_body(EndpointRequest)
        if wanted.rotate and wanted.confirm:
            raise ValidationFailed("confirm: ends a rotation, and rotate begins one. Send one of them.")
        await self._desk.require_callable(wanted.url)
        for _ in range(ATTEMPTS):
            with suppress(CaseConflict):  # someone else changed it at the same moment: read it again
                return self._build_view(await self._save(wanted, request.principal.name or ""))
        raise Unavailable()

    async def _save(self, request: EndpointRequest, owner: str) -> Endpoint:
        now = self._desk.now()
        known = await self._desk.store.get_endpoint(owner, request.url)
        endpoint = known or Endpoint(
            owner=owner, url=request.url, secret=random_values.generate_callback_secret(), created_at=now
        )
        if request.confirm:
            endpoint = end_rotation(endpoint)
        if request.rotate:
            endpoint = rotate_secret(endpoint, now=now, overlap_for=self._desk.limits.rotation_for)
        if request.enable:
            endpoint = replace(endpoint, disabled_at=None)
        if endpoint != known:
            await self._desk.store.save_endpoint(endpoint, after=known)
        return endpoint

    @callbacks.get(
        "/v1/deliveries",
        "listDeliveries",
        query=DeliveryQuery,
        reply=RouteReply(
            description="Deliveries.",
            model=DeliveryList,
            examples=as_examples(one=DeliveryList(deliveries=(_DELIVERY,))),
        ),
    )
    async def list_deliveries(self, request: ApiRequest) -> DeliveryList:
        """List your callback deliveries.

        Newest first, without their bodies.
        """
        query = request.read_query(DeliveryQuery)
        found = await self._deliveries.list_deliveries(
            DeliveryFilter(owner=request.principal.name or "", case_id=query.case_id, state=query.state),
            limit=query.limit,
        )
        return DeliveryList(deliveries=tuple(build_delivery_view(one) for one in found))

    @callbacks.post(
        "/v1/deliveries/{delivery_id}/replay",
        "replayDelivery",
        parameters=(
            Parameter(name="delivery_id", location="path", type=CaseId, description="The delivery's id."),
        ),
        reply=RouteReply(
            status=202,
            description="The delivery will be sent again.",
            model=DeliveryView,
            examples=as_examples(again=_DELIVERY),
        ),
        errors=(RequestError, CaseNotFound),
    )
    async def replay_delivery(self, request: ApiRequest) -> DeliveryView:
        """Send one callback again.

        Sends the same bytes with the same `webhook-id`, in any state of the delivery.
        """
        delivery = await self._deliveries.get_delivery(request.path["delivery_id"])
        if delivery is None or delivery.owner != (request.principal.name or ""):
            raise CaseNotFound("Delivery not found.")
        return build_delivery_view(await self._outbox.replay(delivery.id))

    def _build_view(self, endpoint: Endpoint) -> EndpointView:
        return EndpointView(
            url=endpoint.url,
            secrets=tuple(list_active_secrets(endpoint, self._desk.now())),
            created_at=endpoint.created_at,
            previous_until=endpoint.previous_until,
            disabled_at=endpoint.disabled_at,
        )


def build_delivery_view(delivery: Delivery) -> DeliveryView:
    """Return a delivery without its body."""
    return DeliveryView(
        id=delivery.id,
        case_id=delivery.case_id,
        event=delivery.event,
        target=delivery.target,
        state=delivery.state,
        attempts=delivery.attempts,
        created_at=delivery.created_at,
        next_at=delivery.next_at,
        last_status=delivery.last_status,
        last_error=delivery.last_error,
        settled_at=delivery.settled_at,
    )
