"""Tells callers of what the relay decided itself: the task as they would get it now, pushed to them."""

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from assent.relay.a2a.call import A2ACall
from assent.relay.a2a.dialects import RPC_NAMES, TERMINAL, Dialect
from assent.relay.a2a.problems import A2AProblem
from assent.relay.calls import Calls, Way
from assent.relay.push.notices import Notices
from assent.relay.push.webhooks import Webhook, Webhooks
from assent.relay.registry import Subscription

log = logging.getLogger("assent.relay")


class Notifier:
    """Pushes a task as it stands."""

    def __init__(self, *, calls: Calls, webhooks: Webhooks, notices: Notices) -> None:
        self._calls = calls
        self._webhooks = webhooks
        self._notices = notices

    async def decided(self, subscription: Subscription, task_id: str, correlation_id: str) -> None:
        """Tell the caller where its task stands, by its own name for it, if it asked to be told.

        What cannot be told now is logged: the caller can still ask.
        """
        tenant, agent = subscription.tenant, subscription.sink.id
        for webhook in await self._webhooks.of_task(tenant, agent, task_id):
            if webhook.owner != subscription.source.name or webhook.final is not None:
                continue
            try:
                await self._tell(subscription, webhook, task_id, correlation_id)
            except A2AProblem as problem:
                log.warning(
                    "a caller could not be told of its task: %s",
                    problem.message,
                    extra={"correlation_id": correlation_id},
                )

    async def _tell(
        self, subscription: Subscription, webhook: Webhook, task_id: str, correlation_id: str
    ) -> None:
        call = get_call(webhook.dialect, task_id)
        way = Way(
            subscription=subscription,
            call=call,
            correlation_id=correlation_id,
            headers=headers_for(call.dialect, subscription.sink.credentials, correlation_id),
        )
        reply = (await self._calls.whole(way)).reply
        if reply is None or reply.task is None:
            return
        await self._notices.owe(webhook, reply)
        if reply.state in TERMINAL:
            async with self._webhooks.lock(webhook.id):
                again = await self._webhooks.find(webhook.id)
                if again is not None:
                    await self._webhooks.save(replace(again, final=reply.state))


def get_call(dialect: Dialect, task_id: str) -> A2ACall:
    """The call that asks for a task."""
    if not dialect.rpc:
        return A2ACall(dialect=dialect, operation="get", method="GET", path_task=task_id)
    document: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": RPC_NAMES[dialect, "get"],
        "params": {"id": task_id},
    }
    return A2ACall(dialect=dialect, operation="get", document=document, rpc_id=1)


def headers_for(dialect: Dialect, credentials: Mapping[str, str], correlation_id: str) -> dict[str, str]:
    """The headers of a call that the relay makes itself."""
    return {
        "accept": "application/json",
        "content-type": "application/json",
        "a2a-version": dialect.version,
        "x-correlation-id": correlation_id,
        **credentials,
    }
