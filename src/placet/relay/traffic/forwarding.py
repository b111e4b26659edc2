"""Carry a held message over the legs that are left after approval."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace
from yarl import URL

from placet.relay.a2a.builders import build_message, build_text_part
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect, Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply, parse_reply
from placet.relay.a2a.sse import EventSplitter, get_event_data
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.registry.subscriptions import RegisteredAgent
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import Exchange
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    JSON_TYPES,
    NETWORK_ERRORS,
    as_a2a_error,
    get_media_type,
)
from placet.relay.upstream.errors import ConnectionClosed, ResponseTruncated
from placet.relay.upstream.http_client import UpstreamResponse

CANCEL_WITHIN_S = 10.0
# What whoever stands before an agent says while the agent is away.
UNAVAILABLE_STATUSES = frozenset({429, 502, 503, 504})
UNCERTAIN_STATUSES = frozenset({502, 504})
"""Those after which the agent may have the message."""

OnTaskId = Callable[[str], Awaitable[None]]
"""Told the agent's name for the task, as soon as a stream says it."""


class HeldMessageForwarder:
    """Forwards approved calls and releases approved replies."""

    def __init__(self, calls: CallHandler) -> None:
        self._calls = calls

    async def forward(self, exchange: Exchange, named: OnTaskId) -> A2AReply:
        """The answer to a call, whole, as its caller may see it; a stream's events come to one answer.

        Raises A2AError, and Taken if the message or its answer is held once more.
        """
        calls = self._calls
        call = await calls.prepare_request(exchange)
        url = await self._url_for(exchange, call)
        try:
            async with asyncio.timeout(calls.limits.call_for.total_seconds()):
                reply = await self._ask(exchange, call, url, named)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        return await calls.process_reply(exchange, reply)

    async def release(self, exchange: Exchange, reply: A2AReply) -> A2AReply:
        """An answer that was held, as its caller may see it; raises as `forward` does."""
        return await self._calls.process_reply(exchange, reply)

    async def cancel(self, exchange: Exchange) -> None:
        """Have the agent give up a task, if it can be reached and knows how; raises A2AError if not."""
        calls = self._calls
        url = await calls.url_for(exchange, exchange.call)
        try:
            async with asyncio.timeout(CANCEL_WITHIN_S):
                await self._ask(exchange, exchange.call, url, _ignore_task_id)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def dialect_of(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """The dialect to call an agent in: one that it speaks."""
        return await self._calls.choose_dialect(sink, preferred)

    async def _url_for(self, exchange: Exchange, call: A2ACall) -> URL:
        """Where the agent takes this call; whatever becomes of reading its card, nothing was sent yet."""
        try:
            return await self._calls.url_for(exchange, call)
        except A2AError as problem:
            if isinstance(problem.__cause__, ResponseTruncated | ConnectionClosed):
                raise A2AError(problem.kind, problem.message) from None
            raise

    async def _ask(self, exchange: Exchange, call: A2ACall, url: URL, named: OnTaskId) -> A2AReply:
        upstream, sink = self._calls.upstream, exchange.subscription.sink
        response = await upstream.begin(sink, call.method, url, headers=exchange.headers, body=call.body())
        try:
            if response.status in UNAVAILABLE_STATUSES:
                doubt = (
                    ResponseTruncated("who stands before it gave up")
                    if response.status in UNCERTAIN_STATUSES
                    else None
                )
                raise A2AError("unreachable", "The agent is away.") from doubt
            if get_media_type(response) == EVENTS_TYPE:
                return await self._gather(call, response, named)
            kind, body = get_media_type(response), await upstream.read_whole(response)
        finally:
            response.close()
        if kind not in JSON_TYPES:
            raise A2AError("agent_response", "The agent's answer is not JSON.")
        return parse_reply(call.dialect, call.operation, body)

    async def _gather(self, call: A2ACall, response: UpstreamResponse, named: OnTaskId) -> A2AReply:
        most = self._calls.limits.max_message_bytes
        splitter = EventSplitter(limit=most)
        replies: list[A2AReply] = []
        size = 0
        known = False
        while chunk := await response.read_some():
            size += len(chunk)
            for event in splitter.feed(chunk):
                data = get_event_data(event)
                if data is not None:
                    replies.append(parse_reply(call.dialect, call.operation, data))
                    if not known and replies[-1].task_id is not None:
                        known = True
                        await named(replies[-1].task_id)
            if size > most or splitter.overrun:
                raise A2AError("agent_response", f"The agent's answer is larger than {most} bytes.")
        found = merge_events(replies, call.rpc_id)
        if found is None:
            raise A2AError("agent_response", "The agent said nothing.")
        return found


def build_follow_up(exchange: Exchange, task_id: str, operation: Operation) -> Exchange:
    """The way of another call about the task that a call has led to."""
    return replace(
        exchange,
        call=build_task_call(exchange.call.dialect, operation, task_id, exchange.call.tenant),
        webhook=None,
    )


def build_task_call(
    dialect: Dialect, operation: Operation, task_id: str, tenant: str | None = None
) -> A2ACall:
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


def build_input_call(
    dialect: Dialect,
    text: str,
    *,
    message_id: str,
    task_id: str | None,
    context_id: str | None,
    tenant: str | None = None,
) -> A2ACall:
    """A message that answers what an agent asked."""
    said = build_message(
        message_id=message_id,
        role="user",
        parts=[build_text_part(text, dialect)],
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


async def _ignore_task_id(task_id: str) -> None:
    """Whoever cancels a task knows its name."""
