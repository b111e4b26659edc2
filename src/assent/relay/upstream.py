"""HTTP to agents: guarded addresses, bounded answers, and nothing of the caller's but what A2A needs."""

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.http import HttpProcessingError
from yarl import URL

from assent import __version__
from assent.errors import AddressRefused
from assent.relay.a2a.problems import A2AProblem
from assent.relay.limits import RelayLimits
from assent.relay.registry import Agent

CONNECT_FOR_S = 5.0
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
EVENTS_TYPE = "text/event-stream"

UNREACHABLE = "The agent could not be reached."
BROKEN_OFF = "The agent's answer broke off."
LATE = "The agent did not answer in time."


class Upstream:
    """One session for all agents: no redirects are followed, no cookies kept, no bodies unpacked."""

    def __init__(self, *, resolver: AbstractResolver, limits: RelayLimits) -> None:
        self._resolver = resolver
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._under_way: dict[tuple[str, str], int] = {}

    async def begin(
        self, agent: Agent, method: str, url: URL, *, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        """The head of the agent's answer; how long it may take is for whoever asks to bound.

        Who begins an exchange ends it, whatever happens. Raises A2AProblem for an answer that is none.
        """
        under_way = self._under_way.get(agent.key, 0)
        if under_way >= self._limits.max_calls:
            raise A2AProblem("busy", "Too many calls to this agent are under way.")
        self._under_way[agent.key] = under_way + 1
        try:
            response = await self._open_session().request(
                method, url, data=body or None, headers=headers, allow_redirects=False
            )
        except BaseException:
            self._ended(agent)
            raise
        try:
            check_head(response)
        except A2AProblem:
            self.end(agent, response)
            raise
        return response

    def end(self, agent: Agent, response: aiohttp.ClientResponse) -> None:
        """Let go of an answer. A whole one gave its connection back already; no other is worth keeping."""
        self._ended(agent)
        response.close()

    async def read_whole(self, response: aiohttp.ClientResponse) -> bytes:
        """All of an answer; raises A2AProblem for one that is too large."""
        most = self._limits.max_message_bytes
        if (response.content_length or 0) > most:
            raise A2AProblem("agent_response", f"The agent's answer is larger than {most} bytes.")
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                raise A2AProblem("agent_response", f"The agent's answer is larger than {most} bytes.")
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _ended(self, agent: Agent) -> None:
        left = self._under_way[agent.key] - 1
        if left:
            self._under_way[agent.key] = left
        else:
            del self._under_way[agent.key]

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Each new connection asks the resolver, whose answer is used once and not kept.
                connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_FOR_S),
                headers={"User-Agent": f"assent/{__version__}", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


def check_head(response: aiohttp.ClientResponse) -> None:
    """Raise A2AProblem for an answer that is none of A2A's, before its body is read."""
    if response.status in (401, 403):
        raise A2AProblem("unreachable", "The agent does not accept the relay's credentials.")
    if 300 <= response.status < 400:
        raise A2AProblem("agent_response", "The agent answered with a redirect.")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise A2AProblem("agent_response", "The agent's answer is compressed, which was not asked for.")


def kind_of(response: aiohttp.ClientResponse) -> str:
    """The media type of an answer, without parameters."""
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


NETWORK = (TimeoutError, AddressRefused, HttpProcessingError, aiohttp.ClientError, OSError)
"""What may go wrong between here and an agent."""


def explained(failure: Exception) -> A2AProblem:
    """What the network did as a problem, never in its own words: they may quote the other side's."""
    if isinstance(failure, TimeoutError):
        return A2AProblem("timeout", LATE)
    if isinstance(failure, AddressRefused):
        return A2AProblem("unreachable", "The agent's address may not be called.")
    if isinstance(failure, aiohttp.ClientResponseError | HttpProcessingError):
        return A2AProblem("agent_response", "The agent did not answer in proper HTTP.")
    broken = isinstance(failure, aiohttp.ClientPayloadError)
    return A2AProblem("unreachable", BROKEN_OFF if broken else UNREACHABLE)


async def next_piece(response: aiohttp.ClientResponse, within: float) -> bytes:
    """What has come of a stream; empty at its end. Raises A2AProblem for silence, and if it breaks off."""
    try:
        async with asyncio.timeout(within):
            return await response.content.readany()
    except NETWORK as failure:
        raise explained(failure) from failure
