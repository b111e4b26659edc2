"""Forward an approved message over the legs that it has not passed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace
from yarl import URL

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect, Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import build_message, build_text_part
from placet.relay.a2a.reply import A2AReply, build_task_call, parse_reply_to
from placet.relay.a2a.sse import EventSplitter, get_event_data
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.exchange import Answered, pass_reply
from placet.relay.tenants import RegisteredAgent
from placet.relay.traffic.call_handler import CallHandler, get_forwarded_call
from placet.relay.traffic.exchange import Exchange
from placet.relay.upstream.agent_client import (
    EVENTS_TYPE,
    JSON_TYPES,
    NETWORK_ERRORS,
    UNAVAILABLE_STATUSES,
    as_a2a_error,
    get_media_type,
)
from placet.relay.upstream.connection import ConnectionClosed, ResponseTruncated, UpstreamResponse

CANCEL_WITHIN_S = 10.0
UNCERTAIN_STATUSES = frozenset({502, 504})
"""The statuses after which the agent may have received the message."""

OnTaskId = Callable[[str], Awaitable[None]]
"""Called with the agent's id for the task, as soon as a stream contains it."""


class HeldMessageForwarder:
    """Forwards approved calls and releases approved replies."""

    def __init__(self, calls: CallHandler) -> None:
        self._calls = calls

    async def forward(self, exchange: Exchange, on_task_id: OnTaskId) -> A2AReply | Answered:
        """Send a call to the agent, and return the whole reply as the caller may see it.

        The events of a stream are merged into one reply. Return Answered if the message or its reply is held
        again. Raises A2AError if the call fails.
        """
        calls = self._calls
        run = calls.begin(exchange)
        step = await run.advance()
        if isinstance(step, Answered):
            return step
        call = get_forwarded_call(step)
        url = await self._url_for(exchange, call)
        try:
            async with asyncio.timeout(calls.limits.call_for.total_seconds()):
                reply = await self._call_agent(exchange, call, url, on_task_id)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure
        passed = await run.advance(reply)
        return passed if isinstance(passed, Answered | A2AReply) else reply

    async def release(self, exchange: Exchange, reply: A2AReply) -> A2AReply | Answered:
        """Return a held reply as the caller may see it. Raises and returns as `forward` does."""
        return await self._calls.run(exchange, pass_reply(reply, after=exchange.after))

    async def cancel(self, exchange: Exchange) -> None:
        """Cancel a task of the agent. Raises A2AError if the agent cannot be reached or refuses."""
        calls = self._calls
        url = await calls.url_for(exchange, exchange.call)
        try:
            async with asyncio.timeout(CANCEL_WITHIN_S):
                await self._call_agent(exchange, exchange.call, url, _ignore_task_id)
        except NETWORK_ERRORS as failure:
            raise as_a2a_error(failure) from failure

    async def dialect_of(self, sink: RegisteredAgent, preferred: Dialect) -> Dialect:
        """Return a dialect that the agent supports, `preferred` if possible."""
        return await self._calls.choose_dialect(sink, preferred)

    async def _url_for(self, exchange: Exchange, call: A2ACall) -> URL:
        """Return the agent's URL for this call.

        A failure to read the agent's card is raised without its cause, because nothing was sent yet.
        """
        try:
            return await self._calls.url_for(exchange, call)
        except A2AError as problem:
            if isinstance(problem.__cause__, ResponseTruncated | ConnectionClosed):
                raise A2AError(problem.kind, problem.message) from None
            raise

    async def _call_agent(
        self, exchange: Exchange, call: A2ACall, url: URL, on_task_id: OnTaskId
    ) -> A2AReply:
        upstream = self._calls.upstream
        response = await upstream.begin(exchange.build_request(call, url))
        try:
            if response.status in UNAVAILABLE_STATUSES:
                cause = (
                    ResponseTruncated("the gateway got no response from the agent")
                    if response.status in UNCERTAIN_STATUSES
                    else None
                )
                raise A2AError("unreachable", "The agent is not available.") from cause
            if get_media_type(response) == EVENTS_TYPE:
                return await self._merge_stream(call, response, on_task_id)
            media_type, body = get_media_type(response), await upstream.read_whole(response)
        finally:
            response.close()
        if media_type not in JSON_TYPES:
            raise A2AError("agent_response", "The agent's response is not JSON.")
        return parse_reply_to(call, body)

    async def _merge_stream(
        self, call: A2ACall, response: UpstreamResponse, on_task_id: OnTaskId
    ) -> A2AReply:
        """Read a stream to its end, and merge its events into one reply."""
        limit = self._calls.limits.max_message_bytes
        splitter = EventSplitter(limit=limit)
        replies: list[A2AReply] = []
        size = 0
        has_task_id = False
        while chunk := await response.read_some():
            size += len(chunk)
            for event in splitter.feed(chunk):
                data = get_event_data(event)
                if data is not None:
                    replies.append(parse_reply_to(call, data))
                    if not has_task_id and replies[-1].task_id is not None:
                        has_task_id = True
                        await on_task_id(replies[-1].task_id)
            if size > limit or splitter.overrun:
                raise A2AError("agent_response", f"The agent's response is larger than {limit} bytes.")
        merged = merge_events(replies, call.rpc_id)
        if merged is None:
            raise A2AError("agent_response", "The agent's stream has no events.")
        return merged


def build_follow_up(exchange: Exchange, task_id: str, operation: Operation) -> Exchange:
    """Return the exchange of another call about the task of a call."""
    return replace(
        exchange,
        call=build_task_call(exchange.call.dialect, operation, task_id, exchange.call.tenant),
        webhook=None,
    )


def build_input_call(
    dialect: Dialect,
    text: str,
    *,
    message_id: str,
    task_id: str | None,
    context_id: str | None,
    tenant: str | None = None,
) -> A2ACall:
    """Return a call with a message that answers an agent's request for input."""
    message = build_message(
        message_id=message_id,
        role="user",
        parts=[build_text_part(text, dialect)],
        dialect=dialect,
        task_id=task_id,
        context_id=context_id,
    )
    params: dict[str, Any] = {"request" if dialect.legacy and dialect.proto else "message": message}
    if dialect.legacy:
        params["configuration"] = {"blocking": True}
    if not dialect.rpc:
        return A2ACall(dialect=dialect, operation="send", document=params, tenant=tenant)
    document = {"jsonrpc": "2.0", "id": message_id, "method": RPC_NAMES[dialect, "send"], "params": params}
    return A2ACall(dialect=dialect, operation="send", document=document, rpc_id=message_id, tenant=tenant)


async def _ignore_task_id(task_id: str) -> None:
    """Do nothing: the id of a task that is canceled is known."""
