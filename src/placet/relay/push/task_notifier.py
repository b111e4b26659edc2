"""Push the current state of a task to its caller after a decision of the relay."""

import logging

from msgspec.structs import replace

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import TERMINAL
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.policies.policy import Leg
from placet.relay.push.configs import PushTarget, build_bearer_authentication
from placet.relay.push.outbox import PushOutbox
from placet.relay.push.relay_configs import build_create_call
from placet.relay.push.webhooks import PushWebhook, WebhookRepository
from placet.relay.registry.subscriptions import Subscription
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import Exchange
from placet.relay.traffic.forwarding import build_task_call

ANNOUNCE_WITHIN_S = 10.0

log = logging.getLogger("placet.relay")


class TaskNotifier:
    """Pushes the current view of a task."""

    def __init__(self, *, calls: CallHandler, webhooks: WebhookRepository, notices: PushOutbox) -> None:
        self._calls = calls
        self._webhooks = webhooks
        self._notices = notices

    async def notify(self, subscription: Subscription, task_id: str, correlation_id: str) -> None:
        """Tell the caller where its task stands, by its own name for it, if it asked to be told.

        What cannot be told now is logged: the caller can still ask.
        """
        tenant, agent = subscription.tenant, subscription.sink.id
        for webhook in await self._webhooks.list_for_task(tenant, agent, task_id):
            if webhook.owner != subscription.source.name or webhook.final is not None:
                continue
            try:
                await self._tell(subscription, webhook, task_id, correlation_id)
            except A2AError as problem:
                log.warning(
                    "task_push_failed error=%s",
                    problem.message,
                    extra={"correlation_id": correlation_id},
                )

    async def current(self, subscription: Subscription, webhook: PushWebhook) -> A2AReply | None:
        """The task of a webhook as its caller would get it now, judged as a whole; raises A2AError."""
        call = build_task_call(webhook.dialect, "get", webhook.shown or "")
        reply = (await self._calls.handle(_build_exchange(subscription, call, webhook.correlation_id))).reply
        return reply if reply is not None and reply.task is not None else None

    async def _tell(
        self, subscription: Subscription, webhook: PushWebhook, task_id: str, correlation_id: str
    ) -> None:
        entry = await self._calls.own.find(subscription, task_id)
        if webhook.unknown and entry is not None and entry.upstream_id is not None:
            await self._announce(subscription, webhook, entry.upstream_id, correlation_id)
        reply = await self.current(subscription, webhook)
        if reply is None:
            return
        await self._notices.enqueue(webhook, reply)
        if reply.state in TERMINAL:
            async with self._webhooks.lock(webhook.id):
                again = await self._webhooks.find(webhook.id)
                if again is not None:
                    await self._webhooks.save(replace(again, final=reply.state))

    async def _announce(
        self, subscription: Subscription, webhook: PushWebhook, task: str, correlation_id: str
    ) -> None:
        """Tell the agent of a webhook that was made before it knew the task."""
        async with self._webhooks.lock(webhook.id):
            known, token = await self._webhooks.renew_token(webhook, task)
        address = PushTarget(
            url=self._webhooks.url(webhook.id), token=token, authentication=build_bearer_authentication(token)
        )
        call = build_create_call(address, known.config or task, task, webhook.dialect)
        exchange = _build_exchange(subscription, call, correlation_id)
        await self._calls.send_and_receive(
            replace(exchange, after=Leg.REQUEST_TO_SINK), within=ANNOUNCE_WITHIN_S
        )


def _build_exchange(subscription: Subscription, call: A2ACall, correlation_id: str) -> Exchange:
    """The way of a call that the relay makes itself."""
    headers = {
        "accept": "application/json",
        "content-type": "application/json",
        "a2a-version": call.dialect.version,
        "x-correlation-id": correlation_id,
        **subscription.sink.credentials,
    }
    return Exchange(subscription=subscription, call=call, correlation_id=correlation_id, headers=headers)
