"""Webhooks of the relay for agents to push to: one for each caller and task."""

import asyncio
import secrets
from collections.abc import Callable
from datetime import datetime
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.task_store import TaskKind, TaskRow, TaskStore
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import Dialect, State
from placet.relay.push.configs import PushTarget
from placet.relay.push.encryption import SecretBox, hash_token
from placet.relay.registry.subscriptions import Subscription

PREFIX = "/relay/v1/webhooks/"
SUFFIX = "/notifications"
MAX_PER_TASK = 100
MAX_ID = 1024


class PushWebhook(Struct, frozen=True, kw_only=True):
    """One address, what is known of the task it is for, and what has come in there."""

    id: str
    tenant: str
    agent: str
    owner: str
    """The caller that wants to be told."""
    dialect: Dialect
    """How the caller speaks."""
    token: str
    """The digest of the token that the agent was given."""
    sealed: bytes
    """The caller's own address."""
    correlation_id: str
    """Of the call that asked for it: what is pushed belongs to that."""
    unknown: bool = False
    """Whether the agent has yet to be told of it, because it does not know the task yet."""
    task: str | None = None
    """The agent's name of the task; None while it has not said."""
    shown: str | None = None
    """The caller's name of the task, once it has one."""
    config: str | None = None
    """The config's id."""
    seen: tuple[str, ...] = ()
    """Digests of the last notifications."""
    final: State | None = None
    """The state in which the task ended, once the caller was told."""
    closed: bool = False


class WebhookRepository:
    """Creates and finds webhooks, stored beside the task rows."""

    def __init__(
        self, store: TaskStore, seal: SecretBox, *, public_url: str, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._seal = seal
        self._base = public_url.rstrip("/") + PREFIX
        self._now = now
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, webhook_id: str) -> asyncio.Lock:
        """What everyone holds who changes this webhook."""
        return self._locks.setdefault(webhook_id, asyncio.Lock())

    def url(self, webhook_id: str) -> str:
        """The address of a webhook."""
        return f"{self._base}{webhook_id}{SUFFIX}"

    def id_in(self, url: str) -> str | None:
        """The id in an address, if it is one of ours."""
        if not url.startswith(self._base) or not url.endswith(SUFFIX):
            return None
        return url[len(self._base) : -len(SUFFIX)]

    async def make(
        self, subscription: Subscription, call: A2ACall, address: PushTarget, correlation_id: str
    ) -> tuple[PushWebhook, str]:
        """A new webhook and its token, which is not kept."""
        token = secrets.token_urlsafe(32)
        webhook_id = self._seal.name(subscription.tenant, subscription.sink.id, secrets.token_hex(8))
        webhook = PushWebhook(
            id=webhook_id,
            tenant=subscription.tenant,
            agent=subscription.sink.id,
            owner=subscription.source.name,
            dialect=call.dialect,
            token=hash_token(token),
            sealed=self._seal.close(msgspec.json.encode(address), webhook_id),
            correlation_id=correlation_id,
        )
        await self.save(webhook)
        return webhook, token

    async def renew_token(self, webhook: PushWebhook, task: str) -> tuple[PushWebhook, str]:
        """The webhook with a new token, for an agent that knows the task by now; the token is not kept."""
        token = secrets.token_urlsafe(32)
        known = replace(webhook, token=hash_token(token), unknown=False, task=task)
        await self.save(known)
        return known, token

    def address(self, webhook: PushWebhook) -> PushTarget:
        """Where the caller wants to be told."""
        plain = self._seal.open(webhook.sealed, webhook.id)
        if plain is None:
            raise ValueError("the webhook was sealed with another secret")
        return msgspec.json.decode(plain, type=PushTarget)

    async def find(self, webhook_id: str) -> PushWebhook | None:
        """The webhook of this id, if it is there and open."""
        parts = self._seal.parts(webhook_id) if len(webhook_id) <= MAX_ID else None
        if parts is None or len(parts) != 3:
            return None
        row = await self._store.get_task(parts[0], parts[1], "webhook", webhook_id)
        webhook = None if row is None else msgspec.json.decode(row.body, type=PushWebhook)
        return None if webhook is None or webhook.closed else webhook

    async def save(self, webhook: PushWebhook) -> None:
        """Write a webhook, new or changed."""
        row = self._row(webhook.tenant, webhook.agent, "webhook", webhook.id, msgspec.json.encode(webhook))
        await self._store.save_tasks([row])

    async def bind(
        self, webhook: PushWebhook, *, task: str | None, shown: str, config: str | None
    ) -> PushWebhook:
        """Say which task a webhook is for; an earlier one of the same config is closed."""
        bound = replace(
            webhook, task=task or webhook.task, shown=shown, config=config or webhook.config or task
        )
        if bound == webhook:
            return webhook
        # The list first: a webhook that is listed and not bound is harmless.
        async with self.lock(f"{bound.tenant}\0{bound.agent}\0{shown}"):
            earlier = await self._list_ids(bound.tenant, bound.agent, shown)
            if bound.id not in earlier:
                await self._list(bound, shown, [*earlier, bound.id][-MAX_PER_TASK:])
        await self.save(bound)
        for other in earlier:
            found = await self.find(other) if other != bound.id else None
            if found is not None and found.config is not None and found.config == bound.config:
                await self.close(found)
        return bound

    async def list_for_task(self, tenant: str, agent: str, shown: str) -> list[PushWebhook]:
        """The open webhooks of a task, by its caller's name for it."""
        found = [await self.find(one) for one in await self._list_ids(tenant, agent, shown)]
        return [one for one in found if one is not None]

    async def close(self, webhook: PushWebhook) -> None:
        """Take nothing more in, and forget the caller's address."""
        await self.save(replace(webhook, closed=True, sealed=b"", seen=()))

    async def _list_ids(self, tenant: str, agent: str, shown: str) -> list[str]:
        row = await self._store.get_task(tenant, agent, "webhooks", shown)
        return [] if row is None else msgspec.json.decode(row.body, type=list[str])

    async def _list(self, webhook: PushWebhook, shown: str, ids: list[str]) -> None:
        row = self._row(webhook.tenant, webhook.agent, "webhooks", shown, msgspec.json.encode(ids))
        await self._store.save_tasks([row])

    def _row(self, tenant: str, agent: str, kind: TaskKind, id: str, body: bytes) -> TaskRow:
        return TaskRow(tenant=tenant, agent=agent, kind=kind, id=id, body=body, saved_at=self._now())
