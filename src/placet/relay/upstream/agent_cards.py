"""A cache of agent cards. It resolves where to call an agent, and builds the card that callers see."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from placet.errors import AddressRefused
from placet.protocol.addresses import LOOPBACK_HOSTS, ParsedTarget, check_url
from placet.protocol.forbidden_networks import Network
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
from placet.relay.a2a.json_format import Json
from placet.relay.tenants import RegisteredAgent
from placet.relay.upstream.agent_client import (
    JSON_TYPES,
    NETWORK_ERRORS,
    AgentClient,
    UpstreamRequest,
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
    """The card as callers see it."""
    etag: str
    interfaces: tuple[AgentInterface, ...]
    fresh_until: float
    source: CardSource
    """Where the card was read. It differs after the agent was registered with another URL."""
    default_urls: Mapping[Dialect, str] = {}
    """The URL of each dialect for calls without an A2A tenant."""

    def url(self, dialect: Dialect, tenant: str | None) -> str:
        """Return the agent's URL for this dialect; raise A2AError if it does not support the binding.

        If the agent supports the binding only in another version, the call is sent and the agent responds.
        """
        if tenant is None and dialect in self.default_urls:
            return self.default_urls[dialect]
        same_binding = [one for one in self.interfaces if one.dialect.binding == dialect.binding]
        if not same_binding:
            raise A2AError("unsupported", f"The agent does not support {dialect.binding}.")
        exact = [one for one in same_binding if one.dialect == dialect] or same_binding
        return next((one.url for one in exact if one.tenant == tenant), exact[0].url)


@lru_cache(maxsize=4096)
def _parse_url(url: str) -> URL:
    """Return the parsed URL. Agents have few URLs, so a cache saves parsing on each call."""
    return URL(url, encoded=True)


def resolve_url(card: CachedCard, call: A2ACall) -> URL:
    """Return the URL for a call; raise A2AError if the agent does not support its binding."""
    url = card.url(call.dialect, call.tenant)
    if call.dialect.rpc:
        return _parse_url(url)
    query = f"?{call.query}" if call.query else ""
    return URL(f"{url}{call.path}{query}", encoded=True)


class AgentCardCache:
    """Reads cards, one request at a time per agent. It returns the old card until the new one is read."""

    def __init__(
        self,
        *,
        upstream: AgentClient,
        address: Callable[[str], str],
        monotonic: Callable[[], float],
        allow_loopback: bool,
        networks: Sequence[Network] = (),
        get_grpc_address: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._upstream = upstream
        self._address = address
        self._get_grpc_address = get_grpc_address
        self._monotonic = monotonic
        self._allow_loopback = allow_loopback
        self._networks = networks
        self._cards: dict[tuple[str, str], CachedCard] = {}
        self._refreshes: dict[CardSource, asyncio.Task[CachedCard]] = {}

    async def get_card(self, agent: RegisteredAgent) -> CachedCard:
        """Return the agent's card; raise A2AError if it is not cached and cannot be read."""
        known = self.get_cached_card(agent)
        return known if known is not None else await asyncio.shield(self._start_refresh(agent))

    def get_cached_card(self, agent: RegisteredAgent) -> CachedCard | None:
        """Return the cached card without waiting, or None. Refreshes an old card in the background."""
        known = self._get_known(agent)
        if known is not None and self._monotonic() >= known.fresh_until:
            _ = self._start_refresh(agent)
        return known

    def build_public_card(self, agent: RegisteredAgent, card: Json) -> Json:
        """Return a card of this agent as callers see it."""
        found = rewrite_card(
            card, self._address(agent.id), serves=lambda one: self._find_target(agent, one) is not None
        )
        grpc = self._get_grpc_address()
        return found if grpc is None else add_grpc_interface(found, grpc, agent.id)

    async def aclose(self) -> None:
        """Cancel the refreshes in progress."""
        for task in list(self._refreshes.values()):
            task.cancel()
        await asyncio.gather(*self._refreshes.values(), return_exceptions=True)

    def _start_refresh(self, agent: RegisteredAgent) -> "asyncio.Task[CachedCard]":
        source = _get_card_source(agent)
        refresh = self._refreshes.get(source)
        if refresh is None:
            refresh = self._refreshes[source] = asyncio.create_task(self._refresh(agent))
            refresh.add_done_callback(lambda task: self._end_refresh(source, task))
        return refresh

    def _get_known(self, agent: RegisteredAgent) -> CachedCard | None:
        known = self._cards.get(agent.key)
        return known if known is not None and known.source == _get_card_source(agent) else None

    def _end_refresh(self, source: CardSource, task: "asyncio.Task[CachedCard]") -> None:
        self._refreshes.pop(source, None)
        if not task.cancelled() and task.exception() is not None:
            log.warning("agent_card_refresh_failed agent=%s error=%s", source[1], task.exception())

    async def _refresh(self, agent: RegisteredAgent) -> CachedCard:
        try:
            card = await self._fetch(agent)
            entry = self._build_entry(agent, card)
        except A2AError:
            known = self._get_known(agent)
            if known is None:
                raise
            entry = replace(known, fresh_until=self._monotonic() + RETRY_AFTER_S)
        self._cards[agent.key] = entry
        return entry

    def _build_entry(self, agent: RegisteredAgent, card: Json) -> CachedCard:
        found = [(one, self._find_target(agent, one)) for one in list_interfaces(card)]
        interfaces = tuple(
            AgentInterface(dialect=one.dialect, url=target.url.rstrip("/"), tenant=one.tenant)
            for one, target in found
            if target is not None
        )
        public_card = self.build_public_card(agent, card)
        entry = CachedCard(
            card=public_card,
            etag=compute_etag(public_card),
            interfaces=interfaces,
            fresh_until=self._monotonic() + FRESH_FOR_S,
            source=_get_card_source(agent),
        )
        return replace(entry, default_urls={one.dialect: entry.url(one.dialect, None) for one in interfaces})

    async def _fetch(self, agent: RegisteredAgent) -> Json:
        urls = [agent.card_url] if agent.card_url else [agent.url + path for path in WELL_KNOWN_PATHS]
        for url in urls:
            status, body = await self._get(agent, url)
            if status == 200:
                return parse_card(body)
        raise A2AError("agent_response", "The agent's card could not be found.")

    async def _get(self, agent: RegisteredAgent, url: str) -> tuple[int, bytes]:
        has_same_origin = self._has_same_origin(agent, self._check_url(url))
        headers = {"Accept": "application/json", **(agent.credentials if has_same_origin else {})}
        request = UpstreamRequest(agent, "GET", URL(url, encoded=True), headers, b"")
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                response = await self._upstream.begin(request)
                try:
                    body = await self._upstream.read_whole(response)
                finally:
                    response.close()
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        if response.status == 200 and get_media_type(response) not in JSON_TYPES:
            raise A2AError("agent_response", "The agent's card is not JSON.")
        return response.status, body

    def _find_target(self, agent: RegisteredAgent, interface: AgentInterface) -> ParsedTarget | None:
        """Return the target of an interface; None if its origin is not that of the registered agent.

        The agent writes its card, and the card must not direct the relay's credentials elsewhere.
        """
        try:
            target = self._check_url(interface.url)
        except AddressRefused:
            return None
        return target if "?" not in target.url and self._has_same_origin(agent, target) else None

    def _check_url(self, url: str) -> ParsedTarget:
        return check_url(url, allow_loopback=self._allow_loopback, networks=self._networks)

    def _has_same_origin(self, agent: RegisteredAgent, target: ParsedTarget) -> bool:
        registered = self._check_url(agent.url)
        hosts = {registered.host, target.host}
        is_same_host = len(hosts) == 1 or hosts <= LOOPBACK_HOSTS
        return is_same_host and (registered.scheme, registered.port) == (target.scheme, target.port)


def _get_card_source(agent: RegisteredAgent) -> CardSource:
    return agent.tenant, agent.id, agent.url, agent.card_url
