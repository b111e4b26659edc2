"""Push the current state of a task to its caller."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import TERMINAL
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.push_configs import PushTarget, build_bearer_authentication, build_create_call
from placet.relay.a2a.reply import A2AReply, build_task_call
from placet.relay.exchange import Exchange, RelayAnswer
from placet.relay.policy.policy import Leg
from placet.relay.push import PushOutbox, PushWebhook, WebhookRepository
from placet.relay.tasks.relay_tasks import RelayTasks
from placet.relay.tenants import Subscription

ANNOUNCE_WITHIN_S = 10.0

log = logging.getLogger("placet.relay")


class AgentCalls(Protocol):
    """Makes calls of the relay itself."""

    async def handle(self, exchange: Exchange) -> RelayAnswer:
        """Return the answer to a call as its caller would get it. Raises A2AError if the call fails."""
        ...

    async def send_and_receive(self, exchange: Exchange, *, within: float) -> RelayAnswer:
        """As `handle`, but do not answer with a task when the time is over."""
        ...


class TaskNotifier:
    """Pushes the current state of tasks to their callers."""

    def __init__(
        self,
        *,
        calls: AgentCalls,
        relay_tasks: RelayTasks,
        webhooks: WebhookRepository,
        outbox: PushOutbox,
    ) -> None:
        self._calls = calls
        self._relay_tasks = relay_tasks
        self._notifications: set[asyncio.Task[None]] = set()
        self._webhooks = webhooks
        self._outbox = outbox

    async def notify(self, subscription: Subscription, task_id: str, correlation_id: str) -> None:
        """Push the state of a task to its caller's webhooks. `task_id` is the caller's id.

        A failure is logged and not retried: the caller can still poll the task.
        """
        tenant, agent = subscription.tenant, subscription.sink.id
        for webhook in await self._webhooks.list_for_task(tenant, agent, task_id):
            if webhook.owner != subscription.source.name or webhook.final_state is not None:
                continue
            try:
                await self._push(subscription, webhook, task_id, correlation_id)
            except A2AError as problem:
                log.warning(
                    "task_push_failed error=%s",
                    problem.message,
                    extra={"correlation_id": correlation_id},
                )

    def notify_later(
        self, ended: Awaitable[bool], subscription: Subscription, task_id: str, correlation_id: str
    ) -> None:
        """Notify the caller of a task when `ended` returns true."""

        async def notify_when_ended() -> None:
            if await ended:
                await self.notify(subscription, task_id, correlation_id)

        task = asyncio.create_task(notify_when_ended())
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def aclose(self) -> None:
        """Cancel the pending notifications."""
        for task in self._notifications:
            task.cancel()
        await asyncio.gather(*self._notifications, return_exceptions=True)

    async def fetch_task(self, subscription: Subscription, webhook: PushWebhook) -> A2AReply | None:
        """Return the webhook's task as its caller would get it now, inspected as a whole; raises A2AError."""
        call = build_task_call(webhook.dialect, "get", webhook.caller_task_id or "")
        reply = (await self._calls.handle(_build_exchange(subscription, call, webhook.correlation_id))).reply
        return reply if reply is not None and reply.task is not None else None

    async def _push(
        self, subscription: Subscription, webhook: PushWebhook, task_id: str, correlation_id: str
    ) -> None:
        task = await self._relay_tasks.find(subscription, task_id)
        if webhook.is_unannounced and task is not None and task.upstream_id is not None:
            await self._announce(subscription, webhook, task.upstream_id, correlation_id)
        reply = await self.fetch_task(subscription, webhook)
        if reply is None:
            return
        await self._outbox.enqueue(webhook, reply)
        if reply.state in TERMINAL:
            async with self._webhooks.lock(webhook.id):
                latest = await self._webhooks.find(webhook.id)
                if latest is not None:
                    await self._webhooks.save(replace(latest, final_state=reply.state))

    async def _announce(
        self, subscription: Subscription, webhook: PushWebhook, agent_task_id: str, correlation_id: str
    ) -> None:
        """Create the webhook's config at the agent. The webhook is older than the agent's task."""
        async with self._webhooks.lock(webhook.id):
            announced, token = await self._webhooks.renew_token(webhook, agent_task_id)
        target = PushTarget(
            url=self._webhooks.build_url(webhook.id),
            token=token,
            authentication=build_bearer_authentication(token),
        )
        call = build_create_call(target, announced.config_id or agent_task_id, agent_task_id, webhook.dialect)
        exchange = _build_exchange(subscription, call, correlation_id)
        await self._calls.send_and_receive(
            replace(exchange, after=Leg.REQUEST_TO_SINK), within=ANNOUNCE_WITHIN_S
        )


def _build_exchange(subscription: Subscription, call: A2ACall, correlation_id: str) -> Exchange:
    """Return the exchange of a call that the relay itself makes."""
    headers = {
        "accept": "application/json",
        "content-type": "application/json",
        "a2a-version": call.dialect.version,
        "x-correlation-id": correlation_id,
        **subscription.sink.credentials,
    }
    return Exchange(subscription=subscription, call=call, correlation_id=correlation_id, headers=headers)
