"""The HTTP client for agents: guarded addresses, bounded answers, filtered headers."""

from collections.abc import Callable, Mapping

from aiohttp.abc import AbstractResolver
from yarl import URL

from placet import __version__
from placet.errors import AddressRefused
from placet.relay.a2a.errors import A2AError
from placet.relay.limits import RelayLimits
from placet.relay.registry.subscriptions import RegisteredAgent
from placet.relay.upstream.errors import InvalidHttpResponse, ResponseTruncated
from placet.relay.upstream.http_client import AgentHttpClient, PendingRequest, UpstreamResponse
from placet.relay.upstream.idle_timeout import IdleTimeout

FIXED_HEADERS = {"user-agent": f"placet/{__version__}", "accept-encoding": "identity"}
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
EVENTS_TYPE = "text/event-stream"

UNREACHABLE = "The agent could not be reached."
TRUNCATED = "The agent's answer broke off."
TIMED_OUT = "The agent did not answer in time."
INVALID_HTTP = "The agent did not answer in proper HTTP."


class AgentClient:
    """Calls agents without following redirects, storing cookies or decompressing bodies."""

    def __init__(self, *, resolver: AbstractResolver, limits: RelayLimits) -> None:
        self._http = AgentHttpClient(resolver)
        self._limits = limits
        self._under_way: dict[tuple[str, str], int] = {}

    async def begin(
        self,
        agent: RegisteredAgent,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes,
        within: float | None = None,
    ) -> UpstreamResponse:
        """The head of the agent's answer; without `within`, how long all of it may take is bounded elsewhere.

        Who gets an answer closes it, whatever happens. Raises A2AError for one that is none of A2A's.
        """
        over = self._count_call(agent)
        response = await self._http.request(method, url, {**FIXED_HEADERS, **headers}, body, within, over)
        try:
            check_response_head(response)
        except A2AError:
            response.close()
            raise
        return response

    def send(
        self,
        agent: RegisteredAgent,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes,
        within: float,
    ) -> PendingRequest | None:
        """Begin an exchange at once; None, with nothing done, if there is no connection at hand.

        Raises A2AError and OSError as `begin` does; the head that comes is for `check_response_head` first.
        """
        over = self._count_call(agent)
        asked = None
        try:
            asked = self._http.send(method, url, {**FIXED_HEADERS, **headers}, body, within, over)
        finally:
            if asked is None:
                over()
        return asked

    def read_now(self, response: UpstreamResponse) -> bytes | None:
        """All of an answer, if it is there; raises A2AError for one that is too large."""
        whole = response.read_now()
        if whole is not None:
            self._check_size(len(whole))
        return whole

    async def read_whole(self, response: UpstreamResponse) -> bytes:
        """All of an answer; raises A2AError for one that is too large."""
        self._check_size(response.content_length or 0)
        chunks, size = [], 0
        while chunk := await response.read_some():
            chunks.append(chunk)
            size += len(chunk)
            self._check_size(size)
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        most = self._limits.max_message_bytes
        if size > most:
            raise A2AError("agent_response", f"The agent's answer is larger than {most} bytes.")

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        await self._http.aclose()

    def _count_call(self, agent: RegisteredAgent) -> Callable[[], None]:
        """Count an exchange, if there may be one more; returns what is called at its end."""
        key, under_way = agent.key, self._under_way
        count = under_way.get(key, 0)
        if count >= self._limits.max_calls:
            raise A2AError("busy", "Too many calls to this agent are under way.")
        under_way[key] = count + 1

        def end_call() -> None:
            left = under_way[key] - 1
            if left:
                under_way[key] = left
            else:
                del under_way[key]

        return end_call


def check_response_head(response: UpstreamResponse) -> None:
    """Raise A2AError for an answer that is none of A2A's, before its body is read."""
    if response.status in (401, 403):
        raise A2AError("unreachable", "The agent does not accept the relay's credentials.")
    if 300 <= response.status < 400:
        raise A2AError("agent_response", "The agent answered with a redirect.")
    if response.status >= 600:
        raise A2AError("agent_response", INVALID_HTTP)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise A2AError("agent_response", "The agent's answer is compressed, which was not asked for.")


def get_media_type(response: UpstreamResponse) -> str:
    """The media type of an answer, without parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


NETWORK_ERRORS = (TimeoutError, AddressRefused, InvalidHttpResponse, ResponseTruncated, OSError)
"""What may go wrong between here and an agent."""


def as_a2a_error(failure: Exception) -> A2AError:
    """What the network did as a problem, never in its own words: they may quote the other side's."""
    if isinstance(failure, TimeoutError):
        return A2AError("timeout", TIMED_OUT)
    if isinstance(failure, AddressRefused):
        return A2AError("unreachable", "The agent's address may not be called.")
    if isinstance(failure, InvalidHttpResponse):
        return A2AError("agent_response", INVALID_HTTP)
    return A2AError("unreachable", TRUNCATED if isinstance(failure, ResponseTruncated) else UNREACHABLE)


async def read_chunk(response: UpstreamResponse, patience: IdleTimeout) -> bytes:
    """What has come of a stream; empty at its end. Raises A2AError for silence, and if it breaks off."""
    try:
        if response.ready:
            return await response.read_some()
        return await patience.wait(response.read_some())
    except NETWORK_ERRORS as failure:
        raise as_a2a_error(failure) from failure
