"""HTTP to agents: guarded addresses, bounded answers, and nothing of the caller's but what A2A needs."""

from collections.abc import Mapping

from aiohttp.abc import AbstractResolver
from yarl import URL

from assent import __version__
from assent.errors import AddressRefused
from assent.relay.a2a.problems import A2AProblem
from assent.relay.agent_failures import BadHttp, BrokenOff
from assent.relay.agent_http import AgentHttp, Response
from assent.relay.limits import RelayLimits
from assent.relay.patience import Patience
from assent.relay.registry import Agent

ALWAYS = {"user-agent": f"assent/{__version__}", "accept-encoding": "identity"}
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
EVENTS_TYPE = "text/event-stream"

UNREACHABLE = "The agent could not be reached."
BROKEN_OFF = "The agent's answer broke off."
LATE = "The agent did not answer in time."


class Upstream:
    """All agents: no redirects are followed, no cookies kept, no bodies unpacked."""

    def __init__(self, *, resolver: AbstractResolver, limits: RelayLimits) -> None:
        self._http = AgentHttp(resolver)
        self._limits = limits
        self._under_way: dict[tuple[str, str], int] = {}

    async def begin(
        self,
        agent: Agent,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes,
        within: float | None = None,
    ) -> Response:
        """The head of the agent's answer; without `within`, how long all of it may take is bounded elsewhere.

        Who begins an exchange ends it, whatever happens. Raises A2AProblem for an answer that is none.
        """
        under_way = self._under_way.get(agent.key, 0)
        if under_way >= self._limits.max_calls:
            raise A2AProblem("busy", "Too many calls to this agent are under way.")
        self._under_way[agent.key] = under_way + 1
        try:
            response = await self._http.request(method, url, {**ALWAYS, **headers}, body, within)
        except BaseException:
            self._ended(agent)
            raise
        try:
            check_head(response)
        except A2AProblem:
            self.end(agent, response)
            raise
        return response

    def end(self, agent: Agent, response: Response) -> None:
        """Let go of an answer. A whole one gave its connection back already; no other is worth keeping."""
        self._ended(agent)
        response.close()

    async def read_whole(self, response: Response) -> bytes:
        """All of an answer; raises A2AProblem for one that is too large."""
        most = self._limits.max_message_bytes
        if (response.content_length or 0) > most:
            raise A2AProblem("agent_response", f"The agent's answer is larger than {most} bytes.")
        whole = await response.read_some()
        if not whole:
            return whole
        chunks, size = [whole], len(whole)
        while size <= most and (chunk := await response.read_some()):
            chunks.append(chunk)
            size += len(chunk)
        if size > most:
            raise A2AProblem("agent_response", f"The agent's answer is larger than {most} bytes.")
        return whole if len(chunks) == 1 else b"".join(chunks)

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        await self._http.aclose()

    def _ended(self, agent: Agent) -> None:
        left = self._under_way[agent.key] - 1
        if left:
            self._under_way[agent.key] = left
        else:
            del self._under_way[agent.key]


def check_head(response: Response) -> None:
    """Raise A2AProblem for an answer that is none of A2A's, before its body is read."""
    if response.status in (401, 403):
        raise A2AProblem("unreachable", "The agent does not accept the relay's credentials.")
    if 300 <= response.status < 400:
        raise A2AProblem("agent_response", "The agent answered with a redirect.")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise A2AProblem("agent_response", "The agent's answer is compressed, which was not asked for.")


def kind_of(response: Response) -> str:
    """The media type of an answer, without parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


NETWORK = (TimeoutError, AddressRefused, BadHttp, BrokenOff, OSError)
"""What may go wrong between here and an agent."""


def explained(failure: Exception) -> A2AProblem:
    """What the network did as a problem, never in its own words: they may quote the other side's."""
    if isinstance(failure, TimeoutError):
        return A2AProblem("timeout", LATE)
    if isinstance(failure, AddressRefused):
        return A2AProblem("unreachable", "The agent's address may not be called.")
    if isinstance(failure, BadHttp):
        return A2AProblem("agent_response", "The agent did not answer in proper HTTP.")
    return A2AProblem("unreachable", BROKEN_OFF if isinstance(failure, BrokenOff) else UNREACHABLE)


async def next_piece(response: Response, patience: Patience) -> bytes:
    """What has come of a stream; empty at its end. Raises A2AProblem for silence, and if it breaks off."""
    try:
        if response.ready:
            return await response.read_some()
        return await patience.wait(response.read_some())
    except NETWORK as failure:
        raise explained(failure) from failure
