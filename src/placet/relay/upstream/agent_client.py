"""The HTTP client for agents, with guarded addresses, limited sizes and limited concurrency."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiohttp.abc import AbstractResolver
from yarl import URL

from placet import __version__
from placet.errors import AddressRefused
from placet.relay.a2a.errors import A2AError
from placet.relay.call_limits import RelayLimits
from placet.relay.subscriptions import RegisteredAgent
from placet.relay.upstream.agent_availability import AgentAvailability
from placet.relay.upstream.errors import InvalidHttpResponse, ResponseTruncated
from placet.relay.upstream.http_client import AgentHttpClient, PendingRequest, UpstreamResponse
from placet.relay.upstream.idle_timeout import IdleTimeout

FIXED_HEADERS = {"user-agent": f"placet/{__version__}", "accept-encoding": "identity"}
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
EVENTS_TYPE = "text/event-stream"

UNREACHABLE = "The agent could not be reached."
TRUNCATED = "The agent's response ended before it was complete."
TIMED_OUT = "The agent did not respond in time."
INVALID_HTTP = "The agent's response is not valid HTTP."


class UpstreamRequest(NamedTuple):
    """One request to an agent; `headers` include its credentials."""

    agent: RegisteredAgent
    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes


class AgentClient:
    """Calls agents without following redirects, storing cookies or decompressing bodies."""

    def __init__(
        self, *, resolver: AbstractResolver, limits: RelayLimits, availability: AgentAvailability
    ) -> None:
        self.availability = availability
        self._http = AgentHttpClient(resolver)
        self._limits = limits
        self._in_progress: dict[tuple[str, str], int] = {}

    async def begin(self, request: UpstreamRequest, *, within: float | None = None) -> UpstreamResponse:
        """Send a request and return the head of the response. Without `within` there is no deadline.

        The caller must close the response. Raises A2AError if the head is not acceptable.
        """
        on_end = self._count_call(request.agent)
        headers = {**FIXED_HEADERS, **request.headers}
        try:
            response = await self._http.request(
                request.method, request.url, headers, request.body, within, on_end
            )
        except NETWORK_ERRORS:
            self.availability.note_failure(request.agent)
            raise
        self.availability.note_answer(request.agent, response.status)
        try:
            check_response_head(response)
        except A2AError:
            response.close()
            raise
        return response

    def send(self, request: UpstreamRequest, *, within: float) -> PendingRequest | None:
        """Send a request over an idle connection without waiting; return None if there is none.

        Raises A2AError and OSError like `begin`. Call `check_response_head` when the head arrives.
        """
        on_end = self._count_call(request.agent)
        headers, pending = {**FIXED_HEADERS, **request.headers}, None
        try:
            pending = self._http.send(request.method, request.url, headers, request.body, within, on_end)
        finally:
            if pending is None:
                on_end()
        return pending

    def read_now(self, response: UpstreamResponse) -> bytes | None:
        """Return the whole body if it has arrived, or None; raise A2AError if it is too large."""
        whole = response.read_now()
        if whole is not None:
            self._check_size(len(whole))
        return whole

    async def read_whole(self, response: UpstreamResponse) -> bytes:
        """Return the whole body; raise A2AError if it is too large."""
        self._check_size(response.content_length or 0)
        chunks, size = [], 0
        while chunk := await response.read_some():
            chunks.append(chunk)
            size += len(chunk)
            self._check_size(size)
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        limit = self._limits.max_message_bytes
        if size > limit:
            raise A2AError("agent_response", f"The agent's response is larger than {limit} bytes.")

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        await self._http.aclose()

    def _count_call(self, agent: RegisteredAgent) -> Callable[[], None]:
        """Count a call and return the function that ends it; raise A2AError if the limit is reached."""
        key, in_progress = agent.key, self._in_progress
        count = in_progress.get(key, 0)
        if count >= self._limits.max_calls:
            raise A2AError("busy", "Too many calls to this agent are in progress. Try again later.")
        in_progress[key] = count + 1

        def end_call() -> None:
            left = in_progress[key] - 1
            if left:
                in_progress[key] = left
            else:
                del in_progress[key]

        return end_call


def check_response_head(response: UpstreamResponse) -> None:
    """Raise A2AError if the status or the headers show that this is not an A2A response."""
    if response.status in (401, 403):
        raise A2AError("unreachable", "The agent does not accept the relay's credentials.")
    if 300 <= response.status < 400:
        raise A2AError("agent_response", "The agent responded with a redirect. The relay does not follow it.")
    if response.status >= 600:
        raise A2AError("agent_response", INVALID_HTTP)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise A2AError("agent_response", "The agent's response is compressed. The relay does not support it.")


def get_media_type(response: UpstreamResponse) -> str:
    """Return the media type of a response, without parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


NETWORK_ERRORS = (TimeoutError, AddressRefused, InvalidHttpResponse, ResponseTruncated, OSError)
"""The exceptions of calls to an agent."""


def as_a2a_error(failure: Exception) -> A2AError:
    """Return the A2A error for a network exception, without its text, which may quote the agent."""
    if isinstance(failure, TimeoutError):
        return A2AError("timeout", TIMED_OUT)
    if isinstance(failure, AddressRefused):
        return A2AError("unreachable", "The relay may not call the agent's address.")
    if isinstance(failure, InvalidHttpResponse):
        return A2AError("agent_response", INVALID_HTTP)
    return A2AError("unreachable", TRUNCATED if isinstance(failure, ResponseTruncated) else UNREACHABLE)


async def read_chunk(response: UpstreamResponse, idle_timeout: IdleTimeout) -> bytes:
    """Return the next bytes of a stream; empty at its end. Raises A2AError if it is idle or ends early."""
    try:
        if response.ready:
            return await response.read_some()
        return await idle_timeout.wait(response.read_some())
    except NETWORK_ERRORS as failure:
        raise as_a2a_error(failure) from failure
