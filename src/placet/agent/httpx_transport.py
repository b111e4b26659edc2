"""httpx transports that follow a 202 which requires a person, and return the decision as a response.

A decision is a 200 with the result as JSON. A rejection, an expired or cancelled case and a decision with an
invalid signature are a 409, so code that checks only the status never mistakes them for an approval.
`extensions["placet"]` has the outcome.
"""

from typing import Any

import httpx
import msgspec

from placet.agent.async_agent import AsyncAgent
from placet.agent.outcomes import Decided, Outcome
from placet.agent.sync_agent import Agent


class FollowingTransport(httpx.BaseTransport):
    """Wraps the transport of a synchronous client: `httpx.Client(transport=FollowingTransport(agent))`."""

    def __init__(self, agent: Agent, inner: httpx.BaseTransport | None = None) -> None:
        self._agent = agent
        self._inner = inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; if the response opens a case, follow it to its end."""
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
    """Wraps the transport of an asynchronous client."""

    def __init__(self, agent: AsyncAgent, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._agent = agent
        self._inner = inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; if the response opens a case, follow it to its end."""
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
    """Return an outcome as a response for code that does not know outcomes."""
    yes = isinstance(outcome, Decided) and not outcome.against and outcome.verified is not False
    return httpx.Response(200 if yes else 409, json=outcome_to_dict(outcome), extensions={"placet": outcome})


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON types, without the raw response of the service."""
    plain: dict[str, Any] = msgspec.to_builtins(outcome)
    plain.pop("raw")
    known = {name: value for name, value in plain.items() if value is not None}
    return {"status": outcome.status, **known}
