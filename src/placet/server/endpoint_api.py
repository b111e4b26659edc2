"""The callbacks API: which addresses receive callbacks, with their secrets, for the owner alone."""

from contextlib import suppress
from typing import Annotated, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.desk import minting
from placet.desk.draft import CallbackUrl
from placet.desk.outbox import active_secrets, rotated
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseConflict, Unavailable, ValidationFailed
from placet.ports.endpoint_store import Endpoint
from placet.ports.identity import Principal
from placet.ports.outbox_store import Delivery, DeliveryState, OutboxStore
from placet.protocol.moment import Moment
from placet.server.case_api import id_of, page_limit, require_caller
from placet.server.wire import decode

ATTEMPTS = 16


class EndpointRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address to register, whose secret to rotate, or to switch on again."""

    url: CallbackUrl
    rotate: Annotated[bool, Meta(description="Make a new secret; the old one signs along for a day.")] = False
    enable: Annotated[bool, Meta(description="Switch on an address that was switched off.")] = False


class EndpointView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address with the secrets that sign what it receives."""

    url: str
    secrets: tuple[str, ...]
    created_at: Moment
    previous_until: Moment | None = None
    disabled_at: Moment | None = None


class EndpointList(Struct, frozen=True, kw_only=True):
    """The caller's callback addresses."""

    callbacks: tuple[EndpointView, ...]


class DeliveryView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one callback fared."""

    id: str
    case_id: str
    event: str
    target: str
    state: DeliveryState
    attempts: int
    created_at: Moment
    next_at: Moment | None = None
    last_status: int | None = None
    last_error: str | None = None
    settled_at: Moment | None = None


class DeliveryList(Struct, frozen=True, kw_only=True):
    """The caller's deliveries, newest first."""

    deliveries: tuple[DeliveryView, ...]


_decoder = msgspec.json.Decoder(EndpointRequest)


class EndpointApi:
    """Callback addresses and what was sent to them."""

    def __init__(self, desk: ReviewDesk, deliveries: OutboxStore) -> None:
        self._desk = desk
        self._deliveries = deliveries

    async def list(self, principal: Principal) -> EndpointList:
        """The caller's addresses."""
        require_caller(principal, "cases:read")
        endpoints = await self._desk.store.list_endpoints(principal.name or "")
        return EndpointList(callbacks=tuple(self._view(one) for one in endpoints))

    async def save(self, body: bytes, principal: Principal) -> EndpointView:
        """Register an address, rotate its secret or enable it again; the same address twice is one."""
        require_caller(principal, "cases:write")
        request = decode(_decoder, body)
        await self._desk.require_callable(request.url)
        for _ in range(ATTEMPTS):
            with suppress(CaseConflict):  # another registered, rotated or lost it: look again
                return self._view(await self._saved(request, principal.name or ""))
        raise Unavailable()

    async def _saved(self, request: EndpointRequest, owner: str) -> Endpoint:
        now = self._desk.now()
        known = await self._desk.store.get_endpoint(owner, request.url)
        endpoint = known or Endpoint(
            owner=owner, url=request.url, secret=minting.callback_secret(), created_at=now
        )
        if request.rotate:
            endpoint = rotated(endpoint, now=now, overlap_for=self._desk.limits.rotation_for)
        if request.enable:
            endpoint = replace(endpoint, disabled_at=None)
        if endpoint != known:
            await self._desk.store.save_endpoint(endpoint, after=known)
        return endpoint

    async def deliveries(self, query: dict[str, str], principal: Principal) -> DeliveryList:
        """The delivery log of the caller's cases."""
        require_caller(principal, "cases:read")
        found = await self._deliveries.list_deliveries(
            owner=principal.name or "",
            case_id=id_of(query, "case_id"),
            state=_state_of(query.get("state")),
            limit=page_limit(query.get("limit")),
        )
        return DeliveryList(deliveries=tuple(delivery_view(one) for one in found))

    def _view(self, endpoint: Endpoint) -> EndpointView:
        return EndpointView(
            url=endpoint.url,
            secrets=tuple(active_secrets(endpoint, self._desk.now())),
            created_at=endpoint.created_at,
            previous_until=endpoint.previous_until,
            disabled_at=endpoint.disabled_at,
        )


def _state_of(text: str | None) -> str | None:
    if text is not None and text not in get_args(DeliveryState):
        raise ValidationFailed(f"state is one of {', '.join(get_args(DeliveryState))}.")
    return text


def delivery_view(delivery: Delivery) -> DeliveryView:
    """A delivery without its body."""
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
