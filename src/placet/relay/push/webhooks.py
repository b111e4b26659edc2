"""The relay's webhooks that agents push to: one for each caller and task."""

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
from placet.relay.a2a.dialects import Dialect, TaskState
from placet.relay.push.configs import PushTarget
from placet.relay.push.encryption import SecretBox, hash_token
from placet.relay.route_addresses import NOTIFICATIONS, WEBHOOKS
from placet.relay.subscriptions import Subscription

MAX_PER_TASK = 100
MAX_ID_LENGTH = 1024


class PushWebhook(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "token_digest": "token",
        "encrypted_target": "sealed",
        "is_unannounced": "unknown",
        "agent_task_id": "task",
        "caller_task_id": "shown",
        "config_id": "config",
        "recent_digests": "seen",
        "final_state": "final",
        "is_closed": "closed",
    },  # the names of the stored rows
):
    """One webhook with its task and its recent notifications."""

    id: str
    tenant: str
    agent: str
    owner: str
    """The caller that receives the notifications."""
    dialect: Dialect
    """The caller's dialect."""
    token_digest: str
    """The digest of the token that the agent sends."""
    encrypted_target: bytes
    """The caller's address and credentials, encrypted."""
    correlation_id: str
    """The correlation id of the call that created the webhook."""
    is_unannounced: bool = False
    """Whether the agent's config is still to be created, because the agent does not know the task yet."""
    agent_task_id: str | None = None
    """The agent's id of the task; None until the agent sends it."""
    caller_task_id: str | None = None
    """The caller's id of the task; None until the caller has one."""
    config_id: str | None = None
    recent_digests: tuple[str, ...] = ()
    """Digests of the last notifications."""
    final_state: TaskState | None = None
    """The state in which the task ended, after the caller was notified."""
    is_closed: bool = False


class WebhookRepository:
    """Creates and finds webhooks, stored beside the task rows."""

    def __init__(
        self, store: TaskStore, secret_box: SecretBox, *, public_url: str, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._secret_box = secret_box
        self._base = public_url.rstrip("/") + WEBHOOKS
        self._now = now
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, webhook_id: str) -> asyncio.Lock:
        """Return the lock to hold while the webhook is changed."""
        return self._locks.setdefault(webhook_id, asyncio.Lock())

    def build_url(self, webhook_id: str) -> str:
        """Return the URL of a webhook."""
        return f"{self._base}{webhook_id}{NOTIFICATIONS}"

    def parse_webhook_id(self, url: str) -> str | None:
        """Return the webhook id in a URL; None if it is not a webhook's URL."""
        if not url.startswith(self._base) or not url.endswith(NOTIFICATIONS):
            return None
        return url[len(self._base) : -len(NOTIFICATIONS)]

    async def create(
        self, subscription: Subscription, call: A2ACall, target: PushTarget, correlation_id: str
    ) -> tuple[PushWebhook, str]:
        """Store a new webhook. Return it and its token, of which only the digest is stored."""
        token = secrets.token_urlsafe(32)
        webhook_id = self._secret_box.encrypt_id(
            subscription.tenant, subscription.sink.id, secrets.token_hex(8)
        )
        webhook = PushWebhook(
            id=webhook_id,
            tenant=subscription.tenant,
            agent=subscription.sink.id,
            owner=subscription.source.name,
            dialect=call.dialect,
            token_digest=hash_token(token),
            encrypted_target=self._secret_box.encrypt(msgspec.json.encode(target), webhook_id),
            correlation_id=correlation_id,
        )
        await self.save(webhook)
        return webhook, token

    async def renew_token(self, webhook: PushWebhook, agent_task_id: str) -> tuple[PushWebhook, str]:
        """Give the webhook a new token and the agent's task id. Return it and the token."""
        token = secrets.token_urlsafe(32)
        renewed = replace(
            webhook, token_digest=hash_token(token), is_unannounced=False, agent_task_id=agent_task_id
        )
        await self.save(renewed)
        return renewed, token

    def decrypt_target(self, webhook: PushWebhook) -> PushTarget:
        """Return the caller's address and credentials."""
        plain = self._secret_box.decrypt(webhook.encrypted_target, webhook.id)
        if plain is None:
            raise ValueError("The webhook's target was encrypted with another server secret.")
        return msgspec.json.decode(plain, type=PushTarget)

    async def find(self, webhook_id: str) -> PushWebhook | None:
        """Return the webhook with this id; None if it does not exist or is closed."""
        parts = self._secret_box.decrypt_id(webhook_id) if len(webhook_id) <= MAX_ID_LENGTH else None
        if parts is None or len(parts) != 3:
            return None
        row = await self._store.get_task(parts[0], parts[1], "webhook", webhook_id)
        webhook = None if row is None else msgspec.json.decode(row.body, type=PushWebhook)
        return None if webhook is None or webhook.is_closed else webhook

    async def save(self, webhook: PushWebhook) -> None:
        """Store a new or changed webhook."""
        row = self._build_row(
            webhook.tenant, webhook.agent, "webhook", webhook.id, msgspec.json.encode(webhook)
        )
        await self._store.save_tasks([row])

    async def bind(
        self, webhook: PushWebhook, *, agent_task_id: str | None, caller_task_id: str, config_id: str | None
    ) -> PushWebhook:
        """Record the task of a webhook, and close an earlier webhook with the same config id."""
        bound = replace(
            webhook,
            agent_task_id=agent_task_id or webhook.agent_task_id,
            caller_task_id=caller_task_id,
            config_id=config_id or webhook.config_id or agent_task_id,
        )
        if bound == webhook:
            return webhook
        # The task's list is written first: a webhook in the list that is not bound yet does no harm.
        async with self.lock(f"{bound.tenant}\0{bound.agent}\0{caller_task_id}"):
            earlier = await self._list_ids(bound.tenant, bound.agent, caller_task_id)
            if bound.id not in earlier:
                await self._save_ids(bound, caller_task_id, [*earlier, bound.id][-MAX_PER_TASK:])
        await self.save(bound)
        for other in earlier:
            found = await self.find(other) if other != bound.id else None
            if found is not None and found.config_id is not None and found.config_id == bound.config_id:
                await self.close(found)
        return bound

    async def list_for_task(self, tenant: str, agent: str, caller_task_id: str) -> list[PushWebhook]:
        """Return the open webhooks of a task."""
        found = [await self.find(one) for one in await self._list_ids(tenant, agent, caller_task_id)]
        return [one for one in found if one is not None]

    async def close(self, webhook: PushWebhook) -> None:
        """Close a webhook and delete the caller's address."""
        await self.save(replace(webhook, is_closed=True, encrypted_target=b"", recent_digests=()))

    async def _list_ids(self, tenant: str, agent: str, caller_task_id: str) -> list[str]:
        row = await self._store.get_task(tenant, agent, "webhooks", caller_task_id)
        return [] if row is None else msgspec.json.decode(row.body, type=list[str])

    async def _save_ids(self, webhook: PushWebhook, caller_task_id: str, ids: list[str]) -> None:
        row = self._build_row(
            webhook.tenant, webhook.agent, "webhooks", caller_task_id, msgspec.json.encode(ids)
        )
        await self._store.save_tasks([row])

    def _build_row(self, tenant: str, agent: str, kind: TaskKind, id: str, body: bytes) -> TaskRow:
        return TaskRow(tenant=tenant, agent=agent, kind=kind, id=id, body=body, saved_at=self._now())
