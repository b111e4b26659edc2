"""A drop-in for httpx: a 202 that needs a person is followed, and its caller gets the decision as a response.

A decision is a 200 with the result as JSON; a no, an expired or a withdrawn question, and a decision whose
signature does not hold, is a 409. So code that looks at nothing but the status never takes silence, a no or a
forged answer for a yes. `extensions["placet"]` has the outcome.
"""

from typing import Any

import httpx
import msgspec

from placet.agent.async_agent import AsyncAgent
from placet.agent.outcomes import Decided, Outcome
from placet.agent.sync_agent import Agent


class FollowingTransport(httpx.BaseTransport):
    """Wraps the transport of a client that blocks: `httpx.Client(transport=FollowingTransport(agent))`."""

    def __init__(self, agent: Agent, inner: httpx.BaseTransport | None = None) -> None:
        self._agent = agent
        self._inner = inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request, followed if need be."""
        response = self._inner.handle_request(request)
        response.request = request
        if response.status_code != 202:
            return response
        response.read()
        outcome = self._agent.follow(response)
        return outcome if isinstance(outcome, httpx.Response) else outcome_to_response(outcome)

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class AsyncFollowingTransport(httpx.AsyncBaseTransport):
    """Wraps the transport of a client that awaits."""

    def __init__(self, agent: AsyncAgent, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._agent = agent
        self._inner = inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request, followed if need be."""
        response = await self._inner.handle_async_request(request)
        response.request = request
        if response.status_code != 202:
            return response
        await response.aread()
        outcome = await self._agent.follow(response)
        return outcome if isinstance(outcome, httpx.Response) else outcome_to_response(outcome)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()


def outcome_to_response(outcome: Outcome) -> httpx.Response:
    """An outcome as code that knows nothing of it can read."""
    yes = isinstance(outcome, Decided) and not outcome.against and outcome.verified is not False
    return httpx.Response(200 if yes else 409, json=outcome_to_dict(outcome), extensions={"placet": outcome})


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain JSON, without the service's own words for it."""
    plain: dict[str, Any] = msgspec.to_builtins(outcome)
    plain.pop("raw")
    known = {name: value for name, value in plain.items() if value is not None}
    return {"status": outcome.status, **known}
