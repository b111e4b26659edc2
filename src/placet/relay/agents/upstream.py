"""HTTP to agents: guarded addresses, bounded answers, and nothing of the caller's but what A2A needs."""

from collections.abc import Callable, Mapping

from aiohttp.abc import AbstractResolver
from yarl import URL

from placet import __version__
from placet.errors import AddressRefused
from placet.relay.a2a.problems import A2AProblem
from placet.relay.agents.failures import BadHttp, BrokenOff
from placet.relay.agents.http import AgentHttp, Asked, Response
from placet.relay.agents.patience import Patience
from placet.relay.limits import RelayLimits
from placet.relay.membership.registry import Agent

ALWAYS = {"user-agent": f"placet/{__version__}", "accept-encoding": "identity"}
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
EVENTS_TYPE = "text/event-stream"

UNREACHABLE = "The agent could not be reached."
BROKEN_OFF = "The agent's answer broke off."
LATE = "The agent did not answer in time."
NO_HTTP = "The agent did not answer in proper HTTP."


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

        Who gets an answer closes it, whatever happens. Raises A2AProblem for one that is none of A2A's.
        """
        over = self._begun(agent)
        response = await self._http.request(method, url, {**ALWAYS, **headers}, body, within, over)
        try:
            check_head(response)
        except A2AProblem:
            response.close()
            raise
        return response

    def send(
        self, agent: Agent, method: str, url: URL, *, headers: Mapping[str, str], body: bytes, within: float
    ) -> Asked | None:
        """Begin an exchange at once; None, with nothing done, if there is no connection at hand.

        Raises A2AProblem and OSError as `begin` does; the head that comes is for `check_head` first.
        """
        over = self._begun(agent)
        asked = None
        try:
            asked = self._http.send(method, url, {**ALWAYS, **headers}, body, within, over)
        finally:
            if asked is None:
                over()
        return asked

    def read_now(self, response: Response) -> bytes | None:
        """All of an answer, if it is there; raises A2AProblem for one that is too large."""
        whole = response.read_now()
        if whole is not None:
            self._check_size(len(whole))
        return whole

    async def read_whole(self, response: Response) -> bytes:
        """All of an answer; raises A2AProblem for one that is too large."""
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
            raise A2AProblem("agent_response", f"The agent's answer is larger than {most} bytes.")

    async def aclose(self) -> None:
        """Close all connections; a later request opens new ones."""
        await self._http.aclose()

    def _begun(self, agent: Agent) -> Callable[[], None]:
        """Count an exchange, if there may be one more; returns what is called at its end."""
        key, under_way = agent.key, self._under_way
        count = under_way.get(key, 0)
        if count >= self._limits.max_calls:
            raise A2AProblem("busy", "Too many calls to this agent are under way.")
        under_way[key] = count + 1

        def ended() -> None:
            left = under_way[key] - 1
            if left:
                under_way[key] = left
            else:
                del under_way[key]

        return ended


def check_head(response: Response) -> None:
    """Raise A2AProblem for an answer that is none of A2A's, before its body is read."""
    if response.status in (401, 403):
        raise A2AProblem("unreachable", "The agent does not accept the relay's credentials.")
    if 300 <= response.status < 400:
        raise A2AProblem("agent_response", "The agent answered with a redirect.")
    if response.status >= 600:
        raise A2AProblem("agent_response", NO_HTTP)
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
        return A2AProblem("agent_response", NO_HTTP)
    return A2AProblem("unreachable", BROKEN_OFF if isinstance(failure, BrokenOff) else UNREACHABLE)


async def next_piece(response: Response, patience: Patience) -> bytes:
    """What has come of a stream; empty at its end. Raises A2AProblem for silence, and if it breaks off."""
    try:
        if response.ready:
            return await response.read_some()
        return await patience.wait(response.read_some())
    except NETWORK as failure:
        raise explained(failure) from failure
