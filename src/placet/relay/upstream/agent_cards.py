"""A cache of agents' cards: where to call an agent, and the card that callers see."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from placet.errors import AddressRefused
from placet.protocol.addresses import LOOPBACK_HOSTS, Network, ParsedTarget, check_url
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.cards import (
    WELL_KNOWN_PATHS,
    AgentInterface,
    add_grpc_interface,
    compute_etag,
    list_interfaces,
    parse_card,
    rewrite_card,
)
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import Json
from placet.relay.registry.subscriptions import RegisteredAgent
from placet.relay.upstream.agent_client import (
    JSON_TYPES,
    NETWORK_ERRORS,
    AgentClient,
    as_a2a_error,
    get_media_type,
)

FRESH_FOR_S = 300.0
RETRY_AFTER_S = 30.0
READ_WITHIN_S = 10.0

CardSource = tuple[str, str, str, str | None]

log = logging.getLogger("placet.relay")


class CachedCard(Struct, frozen=True, kw_only=True):
    """An agent's card and its interfaces, as last read."""

    card: Json
    """As callers see it."""
    etag: str
    interfaces: tuple[AgentInterface, ...]
    fresh_until: float
    place: CardSource
    """Where the card was read; an agent that has moved since has another."""
    usual: Mapping[Dialect, str] = {}
    """Where it speaks what it offers, to whoever names no tenant."""

    def url(self, dialect: Dialect, tenant: str | None) -> str:
        """Where the agent speaks this dialect; raises A2AError if it does not.

        Of a binding that is offered in another version only, the agent says itself what it thinks of this.
        """
        if tenant is None and dialect in self.usual:
            return self.usual[dialect]
        of_binding = [one for one in self.interfaces if one.dialect.binding == dialect.binding]
        if not of_binding:
            raise A2AError("unsupported", f"The agent does not speak {dialect.binding}.")
        exact = [one for one in of_binding if one.dialect == dialect] or of_binding
        return next((one.url for one in exact if one.tenant == tenant), exact[0].url)


@lru_cache(maxsize=4096)
def _parse_url(address: str) -> URL:
    """An address taken apart: there are as many as agents, and each is called again and again."""
    return URL(address, encoded=True)


def resolve_url(offer: CachedCard, call: A2ACall) -> URL:
    """Where the agent takes this call; raises A2AError if it does not speak its dialect."""
    address = offer.url(call.dialect, call.tenant)
    if call.dialect.rpc:
        return _parse_url(address)
    query = f"?{call.query}" if call.query else ""
    return URL(f"{address}{call.path}{query}", encoded=True)


class AgentCardCache:
    """Reads cards, one request at a time per agent, and serves the old card until a new one is read."""

    def __init__(
        self,
        *,
        upstream: AgentClient,
        address: Callable[[str], str],
        monotonic: Callable[[], float],
        allow_loopback: bool,
        networks: Sequence[Network] = (),
    ) -> None:
        self._upstream = upstream
        self._address = address
        self.grpc_address: Callable[[], str | None] = lambda: None
        """Where the relay serves gRPC, if it does."""
        self._monotonic = monotonic
        self._allow_loopback = allow_loopback
        self._networks = networks
        self._offers: dict[tuple[str, str], CachedCard] = {}
        self._reading: dict[CardSource, asyncio.Task[CachedCard]] = {}

    async def offer(self, agent: RegisteredAgent) -> CachedCard:
        """What the agent offers; raises A2AError when its card was never read and cannot be now."""
        known = self.get_cached_card(agent)
        return known if known is not None else await asyncio.shield(self._start_refresh(agent))

    def get_cached_card(self, agent: RegisteredAgent) -> CachedCard | None:
        """The same, if nobody has to wait for it; what is old is read again beside."""
        known = self._get_known(agent)
        if known is not None and self._monotonic() >= known.fresh_until:
            _ = self._start_refresh(agent)
        return known

    def build_public_card(self, agent: RegisteredAgent, card: Json) -> Json:
        """A card of this agent as callers see it."""
        found = rewrite_card(
            card, self._address(agent.id), serves=lambda one: self._target(agent, one) is not None
        )
        grpc = self.grpc_address()
        return found if grpc is None else add_grpc_interface(found, grpc, agent.id)

    async def aclose(self) -> None:
        """Stop reading."""
        for task in list(self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)

    def _start_refresh(self, agent: RegisteredAgent) -> "asyncio.Task[CachedCard]":
        place = _get_card_source(agent)
        reading = self._reading.get(place)
        if reading is None:
            reading = self._reading[place] = asyncio.create_task(self._refresh(agent))
            reading.add_done_callback(lambda task: self._read(place, task))
        return reading

    def _get_known(self, agent: RegisteredAgent) -> CachedCard | None:
        known = self._offers.get(agent.key)
        return known if known is not None and known.place == _get_card_source(agent) else None

    def _read(self, place: CardSource, task: "asyncio.Task[CachedCard]") -> None:
        self._reading.pop(place, None)
        if not task.cancelled() and task.exception() is not None:
            log.warning("agent_card_refresh_failed agent=%s error=%s", place[1], task.exception())

    async def _refresh(self, agent: RegisteredAgent) -> CachedCard:
        try:
            card = await self._fetch(agent)
            offer = self._offer_of(agent, card)
        except A2AError:
            known = self._get_known(agent)
            if known is None:
                raise
            offer = replace(known, fresh_until=self._monotonic() + RETRY_AFTER_S)
        self._offers[agent.key] = offer
        return offer

    def _offer_of(self, agent: RegisteredAgent, card: Json) -> CachedCard:
        found = [(one, self._target(agent, one)) for one in list_interfaces(card)]
        interfaces = tuple(
            AgentInterface(dialect=one.dialect, url=target.url.rstrip("/"), tenant=one.tenant)
            for one, target in found
            if target is not None
        )
        build_public_card = self.build_public_card(agent, card)
        offer = CachedCard(
            card=build_public_card,
            etag=compute_etag(build_public_card),
            interfaces=interfaces,
            fresh_until=self._monotonic() + FRESH_FOR_S,
            place=_get_card_source(agent),
        )
        return replace(offer, usual={one.dialect: offer.url(one.dialect, None) for one in interfaces})

    async def _fetch(self, agent: RegisteredAgent) -> Json:
        urls = [agent.card_url] if agent.card_url else [agent.url + path for path in WELL_KNOWN_PATHS]
        for url in urls:
            status, body = await self._get(agent, url)
            if status == 200:
                return parse_card(body)
        raise A2AError("agent_response", "The agent's card could not be found.")

    async def _get(self, agent: RegisteredAgent, url: str) -> tuple[int, bytes]:
        own = self._same_origin(agent, self._check_url(url))
        headers = {"Accept": "application/json", **(agent.credentials if own else {})}
        address = URL(url, encoded=True)
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                response = await self._upstream.begin(agent, "GET", address, headers=headers, body=b"")
                try:
                    body = await self._upstream.read_whole(response)
                finally:
                    response.close()
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        if response.status == 200 and get_media_type(response) not in JSON_TYPES:
            raise A2AError("agent_response", "The agent's card is not JSON.")
        return response.status, body

    def _target(self, agent: RegisteredAgent, interface: AgentInterface) -> ParsedTarget | None:
        """Where to call an interface; None if it lies anywhere but with the agent that was registered.

        A card is what an agent says of itself: it must not send the relay's credentials elsewhere.
        """
        try:
            target = self._check_url(interface.url)
        except AddressRefused:
            return None
        return target if "?" not in target.url and self._same_origin(agent, target) else None

    def _check_url(self, url: str) -> ParsedTarget:
        return check_url(url, allow_loopback=self._allow_loopback, networks=self._networks)

    def _same_origin(self, agent: RegisteredAgent, target: ParsedTarget) -> bool:
        own = self._check_url(agent.url)
        hosts = {own.host, target.host}
        same_host = len(hosts) == 1 or hosts <= LOOPBACK_HOSTS
        return same_host and (own.scheme, own.port) == (target.scheme, target.port)


def _get_card_source(agent: RegisteredAgent) -> CardSource:
    return agent.tenant, agent.id, agent.url, agent.card_url
