"""The rest of a held message's way: to the agent and back, or back only, on the legs that are left."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace
from yarl import URL

from placet.relay.a2a.building import message, text_part
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect, Operation
from placet.relay.a2a.gathering import gathered
from placet.relay.a2a.problems import A2AProblem
from placet.relay.a2a.reply import A2AReply, read_reply
from placet.relay.a2a.sse import EventSplitter, event_data
from placet.relay.agents.failures import BrokenOff, HungUp
from placet.relay.agents.http import Response
from placet.relay.agents.upstream import EVENTS_TYPE, JSON_TYPES, NETWORK, explained, kind_of
from placet.relay.membership.registry import Agent
from placet.relay.traffic.calls import Calls
from placet.relay.traffic.way import Way

CANCEL_WITHIN_S = 10.0
# What whoever stands before an agent says while the agent is away.
AWAY = frozenset({429, 502, 503, 504})
DOUBT = frozenset({502, 504})
"""Those after which the agent may have the message."""

Named = Callable[[str], Awaitable[None]]
"""Told the agent's name for the task, as soon as a stream says it."""


class Forwarding:
    """Carries what was held."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def forward(self, way: Way, named: Named) -> A2AReply:
        """The answer to a call, whole, as its caller may see it; a stream's events come to one answer.

        Raises A2AProblem, and Taken if the message or its answer is held once more.
        """
        calls = self._calls
        call = await calls.outward(way)
        url = await self._url_for(way, call)
        try:
            async with asyncio.timeout(calls.limits.call_for.total_seconds()):
                reply = await self._ask(way, call, url, named)
        except NETWORK as failure:
            raise explained(failure) from failure
        return await calls.inward(way, reply)

    async def release(self, way: Way, reply: A2AReply) -> A2AReply:
        """An answer that was held, as its caller may see it; raises as `forward` does."""
        return await self._calls.inward(way, reply)

    async def cancel(self, way: Way) -> None:
        """Have the agent give up a task, if it can be reached and knows how; raises A2AProblem if not."""
        calls = self._calls
        url = await calls.url_for(way, way.call)
        try:
            async with asyncio.timeout(CANCEL_WITHIN_S):
                await self._ask(way, way.call, url, _nobody)
        except NETWORK as failure:
            raise explained(failure) from failure

    async def dialect_of(self, sink: Agent, preferred: Dialect) -> Dialect:
        """The dialect to call an agent in: one that it speaks."""
        return await self._calls.spoken(sink, preferred)

    async def _url_for(self, way: Way, call: A2ACall) -> URL:
        """Where the agent takes this call; whatever becomes of reading its card, nothing was sent yet."""
        try:
            return await self._calls.url_for(way, call)
        except A2AProblem as problem:
            if isinstance(problem.__cause__, BrokenOff | HungUp):
                raise A2AProblem(problem.kind, problem.message) from None
            raise

    async def _ask(self, way: Way, call: A2ACall, url: URL, named: Named) -> A2AReply:
        upstream, sink = self._calls.upstream, way.subscription.sink
        response = await upstream.begin(sink, call.method, url, headers=way.headers, body=call.body())
        try:
            if response.status in AWAY:
                doubt = BrokenOff("who stands before it gave up") if response.status in DOUBT else None
                raise A2AProblem("unreachable", "The agent is away.") from doubt
            if kind_of(response) == EVENTS_TYPE:
                return await self._gather(call, response, named)
            kind, body = kind_of(response), await upstream.read_whole(response)
        finally:
            response.close()
        if kind not in JSON_TYPES:
            raise A2AProblem("agent_response", "The agent's answer is not JSON.")
        return read_reply(call.dialect, call.operation, body)

    async def _gather(self, call: A2ACall, response: Response, named: Named) -> A2AReply:
        most = self._calls.limits.max_message_bytes
        splitter = EventSplitter(limit=most)
        replies: list[A2AReply] = []
        size = 0
        known = False
        while chunk := await response.read_some():
            size += len(chunk)
            for event in splitter.feed(chunk):
                data = event_data(event)
                if data is not None:
                    replies.append(read_reply(call.dialect, call.operation, data))
                    if not known and replies[-1].task_id is not None:
                        known = True
                        await named(replies[-1].task_id)
            if size > most or splitter.overrun:
                raise A2AProblem("agent_response", f"The agent's answer is larger than {most} bytes.")
        found = gathered(replies, call.rpc_id)
        if found is None:
            raise A2AProblem("agent_response", "The agent said nothing.")
        return found


def way_back(way: Way, task_id: str, operation: Operation) -> Way:
    """The way of another call about the task that a call has led to."""
    return replace(way, call=task_call(way.call.dialect, operation, task_id, way.call.tenant), webhook=None)


def task_call(dialect: Dialect, operation: Operation, task_id: str, tenant: str | None = None) -> A2ACall:
    """A call that only names a task."""
    if dialect.rpc:
        document: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": RPC_NAMES[dialect, operation],
            "params": {"id": task_id},
        }
        return A2ACall(dialect=dialect, operation=operation, document=document, rpc_id=1, tenant=tenant)
    if operation == "get":
        return A2ACall(dialect=dialect, operation=operation, method="GET", path_task=task_id, tenant=tenant)
    return A2ACall(dialect=dialect, operation=operation, path_task=task_id, document={}, tenant=tenant)


def answering_call(
    dialect: Dialect,
    text: str,
    *,
    message_id: str,
    task_id: str | None,
    context_id: str | None,
    tenant: str | None = None,
) -> A2ACall:
    """A message that answers what an agent asked."""
    said = message(
        message_id=message_id,
        role="user",
        parts=[text_part(text, dialect)],
        dialect=dialect,
        task_id=task_id,
        context_id=context_id,
    )
    params: dict[str, Any] = {"request" if dialect.legacy and dialect.proto else "message": said}
    if dialect.legacy:
        params["configuration"] = {"blocking": True}
    if not dialect.rpc:
        return A2ACall(dialect=dialect, operation="send", document=params, tenant=tenant)
    document = {"jsonrpc": "2.0", "id": message_id, "method": RPC_NAMES[dialect, "send"], "params": params}
    return A2ACall(dialect=dialect, operation="send", document=document, rpc_id=message_id, tenant=tenant)


async def _nobody(task_id: str) -> None:
    """Whoever cancels a task knows its name."""
