"""Replace callers' push addresses with the relay's webhooks, and restore them in responses."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from placet.errors import AddressRefused
from placet.relay.a2a.call import SEND_OPERATIONS, A2ACall
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.reply import PUSH_OPERATIONS, A2AReply
from placet.relay.push.configs import (
    PushTarget,
    find_config_id,
    find_push_target,
    get_config_id,
    list_config_urls,
    replace_push_target,
    restore_push_targets,
)
from placet.relay.push.relay_configs import build_answer, build_config, build_config_list
from placet.relay.push.webhooks import PushWebhook, WebhookRepository
from placet.relay.subscriptions import Subscription

CONFIG_NOT_FOUND = "Push notification config not found."
CONFIG_CARRYING_OPERATIONS = SEND_OPERATIONS | {"push_create"}


class PushProxy:
    """Gives agents the relay's webhooks instead of the callers' push addresses."""

    def __init__(self, webhooks: WebhookRepository, check: Callable[[str], Awaitable[None]]) -> None:
        self.webhooks = webhooks
        self._check = check

    async def replace_target(
        self, subscription: Subscription, call: A2ACall, correlation_id: str
    ) -> tuple[A2ACall, str | None]:
        """Return the call with a new webhook in place of the caller's address, and the webhook's id.

        The id is None if the call has no push config. Raises A2AError if the relay may not call the address.
        """
        target = find_push_target(call) if call.operation in CONFIG_CARRYING_OPERATIONS else None
        if target is None:
            return call, None
        await check_push_url(target.url, self._check)
        webhook, token = await self.webhooks.create(subscription, call, target, correlation_id)
        return replace_push_target(call, self.webhooks.build_url(webhook.id), token), webhook.id

    async def bind(self, webhook_id: str, *, agent_task_id: str | None, caller_task_id: str) -> None:
        """Record the task of a webhook: the agent's id of it, if known, and the caller's id."""
        async with self.webhooks.lock(webhook_id):
            webhook = await self.webhooks.find(webhook_id)
            if webhook is not None and (
                webhook.caller_task_id != caller_task_id
                or (agent_task_id and webhook.agent_task_id != agent_task_id)
            ):
                await self.webhooks.bind(
                    webhook, agent_task_id=agent_task_id, caller_task_id=caller_task_id, config_id=None
                )

    async def find_agent_task_id(self, webhook_id: str) -> str | None:
        """Return the agent's id of the webhook's task; None while the agent has not sent it."""
        webhook = await self.webhooks.find(webhook_id)
        return None if webhook is None else webhook.agent_task_id

    async def restore_targets(
        self,
        subscription: Subscription,
        call: A2ACall,
        webhook_id: str | None,
        reply: A2AReply,
        agent_task_id: str,
    ) -> A2AReply:
        """Return a response about configs with the caller's addresses.

        Raises A2AError if the config is not the caller's.
        """
        if call.operation == "push_delete":
            await self.remove_config(subscription, call)
            return reply
        result = reply.document.get("result") if reply.dialect.rpc else reply.document
        known = await self._find_targets(subscription, result)
        if webhook_id is not None:
            known |= await self._register_created(call, webhook_id, result, agent_task_id)
        restored = restore_push_targets(result, known, call.dialect)
        if restored is None and result is not None:
            raise A2AError("task_not_found", CONFIG_NOT_FOUND)
        document = reply.document | {"result": restored} if reply.dialect.rpc else restored
        return replace(reply, document=document)

    async def handle_config_call(
        self, subscription: Subscription, call: A2ACall, webhook_id: str | None, task_id: str
    ) -> Json:
        """Return the response to a call about configs of a task that the agent does not know yet.

        The relay registers the configs with the agent later. Raises A2AError if the config does not exist.
        """
        if webhook_id is not None:
            await self._bind_unannounced(call, webhook_id, task_id)
        if call.operation == "push_delete":
            await self.remove_config(subscription, call)
            return build_answer(None if call.dialect.rpc else {}, call)
        found = await self.webhooks.list_for_task(subscription.tenant, subscription.sink.id, task_id)
        configs = {
            one.config_id: build_config(
                self.webhooks.decrypt_target(one), one.config_id or task_id, task_id, call.dialect
            )
            for one in found
            if _belongs_to(one, subscription)
        }
        if call.operation == "push_list":
            return build_answer(build_config_list(list(configs.values()), call.dialect), call)
        config = configs.get(get_config_id(call) or task_id)
        if config is None:
            raise A2AError("task_not_found", CONFIG_NOT_FOUND)
        return build_answer(config, call)

    async def _bind_unannounced(self, call: A2ACall, webhook_id: str, task_id: str) -> None:
        async with self.webhooks.lock(webhook_id):
            webhook = await self.webhooks.find(webhook_id)
            if webhook is not None:
                config_id = get_config_id(call) or task_id
                webhook = replace(webhook, is_unannounced=True)
                await self.webhooks.bind(
                    webhook, agent_task_id=None, caller_task_id=task_id, config_id=config_id
                )

    async def remove_config(self, subscription: Subscription, call: A2ACall) -> None:
        """Close the webhook of a config that the agent has deleted."""
        config_id = get_config_id(call)
        if call.operation != "push_delete" or call.task_id is None:
            return
        for webhook in await self.webhooks.list_for_task(
            subscription.tenant, subscription.sink.id, call.task_id
        ):
            if webhook.config_id == config_id and webhook.owner == subscription.source.name:
                await self.webhooks.close(webhook)

    async def discard_webhook(self, webhook_id: str) -> None:
        """Close a webhook that the agent did not accept."""
        webhook = await self.webhooks.find(webhook_id)
        if webhook is not None and webhook.agent_task_id is None:
            await self.webhooks.close(webhook)

    async def _find_targets(self, subscription: Subscription, result: Any) -> dict[str, PushTarget]:
        found: dict[str, PushTarget] = {}
        for url in list_config_urls(result):
            webhook_id = self.webhooks.parse_webhook_id(url)
            webhook = await self.webhooks.find(webhook_id) if webhook_id is not None else None
            if webhook is not None and _belongs_to(webhook, subscription):
                found[url] = self.webhooks.decrypt_target(webhook)
        return found

    async def _register_created(
        self, call: A2ACall, webhook_id: str, result: Any, agent_task_id: str
    ) -> dict[str, PushTarget]:
        """Bind a config that was just created. Return its target by every address in the response.

        Agents may return the address in a different form.
        """
        async with self.webhooks.lock(webhook_id):
            webhook = await self.webhooks.find(webhook_id)
            if webhook is None:
                return {}
            webhook = await self.webhooks.bind(
                webhook,
                agent_task_id=agent_task_id,
                caller_task_id=call.task_id or agent_task_id,
                config_id=find_config_id(result) or get_config_id(call),
            )
        return dict.fromkeys(list_config_urls(result), self.webhooks.decrypt_target(webhook))


async def check_push_url(url: str, check: Callable[[str], Awaitable[None]]) -> None:
    """Raise A2AError if the relay may not call the address."""
    try:
        await check(url)
    except AddressRefused as refusal:
        raise A2AError("params", f"The push notification's URL: {refusal.message}") from refusal


def is_config_operation(call: A2ACall) -> bool:
    """Return whether the response to this call contains configs."""
    return call.operation in PUSH_OPERATIONS


def _belongs_to(webhook: PushWebhook, subscription: Subscription) -> bool:
    return (webhook.owner, webhook.tenant, webhook.agent) == (
        subscription.source.name,
        subscription.tenant,
        subscription.sink.id,
    )
