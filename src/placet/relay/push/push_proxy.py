"""Replace callers' push addresses with the relay's webhooks, and restore them in answers."""

import asyncio
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
    restore_push_targets,
)
from placet.relay.push.configs import replace_push_target as readdressed
from placet.relay.push.relay_configs import build_answer, build_config, build_config_list
from placet.relay.push.webhooks import PushWebhook, WebhookRepository
from placet.relay.registry.subscriptions import Subscription

NotifyTask = Callable[[Subscription, str, str], Awaitable[None]]
CONFIG_NOT_FOUND = "There is no such push notification config."
CONFIG_CARRYING_OPERATIONS = SEND_OPERATIONS | {"push_create"}


class PushProxy:
    """Puts the relay's webhook between the agent that pushes and the caller."""

    def __init__(self, webhooks: WebhookRepository, check: Callable[[str], Awaitable[None]]) -> None:
        self.webhooks = webhooks
        self.notify: NotifyTask | None = None
        """Tells a caller where a task stands of which the relay speaks itself."""
        self._check = check
        self._later: set[asyncio.Task[None]] = set()

    async def take(
        self, subscription: Subscription, call: A2ACall, correlation_id: str
    ) -> tuple[A2ACall, str | None]:
        """The call with a webhook of the relay's in the place of the caller's address, and the webhook's id.

        Raises A2AError for an address that the relay may not call.
        """
        address = find_push_target(call) if call.operation in CONFIG_CARRYING_OPERATIONS else None
        if address is None:
            return call, None
        await check_push_url(address.url, self._check)
        webhook, token = await self.webhooks.make(subscription, call, address, correlation_id)
        return readdressed(call, self.webhooks.url(webhook.id), token), webhook.id

    async def bind(self, webhook_id: str, *, task: str | None, shown: str) -> None:
        """Note which task a webhook is for: the agent's name of it, if there is one, and the caller's."""
        async with self.webhooks.lock(webhook_id):
            webhook = await self.webhooks.find(webhook_id)
            if webhook is not None and (webhook.shown != shown or (task and webhook.task != task)):
                await self.webhooks.bind(webhook, task=task, shown=shown, config=None)

    async def task_of(self, webhook_id: str) -> str | None:
        """The agent's name of the task that a webhook is for, if it has pushed there already."""
        webhook = await self.webhooks.find(webhook_id)
        return None if webhook is None else webhook.task

    def notify_later(
        self, ended: Awaitable[bool], subscription: Subscription, task_id: str, about: str
    ) -> None:
        """Tell the caller of a task once it has `ended` here; `about` is the correlation id."""

        async def tell() -> None:
            if await ended and self.notify is not None:
                await self.notify(subscription, task_id, about)

        task = asyncio.create_task(tell())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def aclose(self) -> None:
        """Give up what is under way."""
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    async def rewrite_answer(
        self, subscription: Subscription, call: A2ACall, webhook_id: str | None, reply: A2AReply, task: str
    ) -> A2AReply:
        """An answer about configs in the caller's own words; `task` is the agent's name of the task.

        Raises A2AError for a config that is not the caller's.
        """
        if call.operation == "push_delete":
            await self.remove_config(subscription, call)
            return reply
        result = reply.document.get("result") if reply.dialect.rpc else reply.document
        known = await self._find_targets(subscription, result)
        if webhook_id is not None:
            known |= await self._register_created(call, webhook_id, result, task)
        shown = restore_push_targets(result, known, call.dialect)
        if shown is None and result is not None:
            raise A2AError("task_not_found", CONFIG_NOT_FOUND)
        return replace(reply, document=reply.document | {"result": shown} if reply.dialect.rpc else shown)

    async def own(
        self, subscription: Subscription, call: A2ACall, webhook_id: str | None, task_id: str
    ) -> Json:
        """The answer about configs of a task that only the relay knows; raises A2AError.

        The agent is told of them once it knows the task.
        """
        if webhook_id is not None:
            await self._keep(call, webhook_id, task_id)
        if call.operation == "push_delete":
            await self.remove_config(subscription, call)
            return build_answer(None if call.dialect.rpc else {}, call)
        found = await self.webhooks.list_for_task(subscription.tenant, subscription.sink.id, task_id)
        configs = {
            one.config: build_config(self.webhooks.address(one), one.config or task_id, task_id, call.dialect)
            for one in found
            if _belongs_to(one, subscription)
        }
        if call.operation == "push_list":
            return build_answer(build_config_list(list(configs.values()), call.dialect), call)
        config = configs.get(get_config_id(call) or task_id)
        if config is None:
            raise A2AError("task_not_found", CONFIG_NOT_FOUND)
        return build_answer(config, call)

    async def _keep(self, call: A2ACall, webhook_id: str, task_id: str) -> None:
        async with self.webhooks.lock(webhook_id):
            webhook = await self.webhooks.find(webhook_id)
            if webhook is not None:
                config = get_config_id(call) or task_id
                webhook = replace(webhook, unknown=True)
                await self.webhooks.bind(webhook, task=None, shown=task_id, config=config)

    async def remove_config(self, subscription: Subscription, call: A2ACall) -> None:
        """The agent has let a config go."""
        config = get_config_id(call)
        if call.operation != "push_delete" or call.task_id is None:
            return
        for webhook in await self.webhooks.list_for_task(
            subscription.tenant, subscription.sink.id, call.task_id
        ):
            if webhook.config == config and webhook.owner == subscription.source.name:
                await self.webhooks.close(webhook)

    async def discard_webhook(self, webhook_id: str) -> None:
        """The agent did not take the webhook."""
        webhook = await self.webhooks.find(webhook_id)
        if webhook is not None and webhook.task is None:
            await self.webhooks.close(webhook)

    async def _find_targets(self, subscription: Subscription, result: Any) -> dict[str, PushTarget]:
        found: dict[str, PushTarget] = {}
        for url in list_config_urls(result):
            webhook_id = self.webhooks.id_in(url)
            webhook = await self.webhooks.find(webhook_id) if webhook_id is not None else None
            if webhook is not None and _belongs_to(webhook, subscription):
                found[url] = self.webhooks.address(webhook)
        return found

    async def _register_created(
        self, call: A2ACall, webhook_id: str, result: Any, task: str
    ) -> dict[str, PushTarget]:
        """The config that was just made, whatever address the agent says it has now."""
        async with self.webhooks.lock(webhook_id):
            webhook = await self.webhooks.find(webhook_id)
            if webhook is None:
                return {}
            config = find_config_id(result) or get_config_id(call)
            webhook = await self.webhooks.bind(webhook, task=task, shown=call.task_id or task, config=config)
        address = self.webhooks.address(webhook)
        return dict.fromkeys(list_config_urls(result), address)


async def check_push_url(url: str, check: Callable[[str], Awaitable[None]]) -> None:
    """Raise A2AError for an address that may not be called."""
    try:
        await check(url)
    except AddressRefused as refusal:
        raise A2AError("params", f"The push notification's URL: {refusal.message}") from refusal


def is_config_operation(call: A2ACall) -> bool:
    """Whether an answer to this call carries configs."""
    return call.operation in PUSH_OPERATIONS


def _belongs_to(webhook: PushWebhook, subscription: Subscription) -> bool:
    return (webhook.owner, webhook.tenant, webhook.agent) == (
        subscription.source.name,
        subscription.tenant,
        subscription.sink.id,
    )
