"""Push notifications: the relay gives agents its own webhooks, and forwards what arrives to the callers."""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct
from msgspec.structs import replace

from placet.desk import random_values
from placet.errors import AddressRefused
from placet.ports.courier import Courier, DeliveryReply, OutgoingRequest
from placet.ports.outbox_store import Delivery, OutboxStore
from placet.ports.task_store import TaskKind, TaskRow, TaskStore
from placet.relay.a2a.call import SEND_OPERATIONS, A2ACall
from placet.relay.a2a.dialects import REST_1_0, RPC_0_3, Dialect, TaskState
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json, translate_message, translate_task
from placet.relay.a2a.push_configs import (
    PushTarget,
    build_answer,
    build_config,
    build_config_list,
    find_config_id,
    find_push_target,
    get_config_id,
    list_config_urls,
    replace_push_target,
    restore_push_targets,
)
from placet.relay.a2a.reply import PUSH_OPERATIONS, A2AReply
from placet.relay.a2a.stream_merging import merge_events
from placet.relay.route_addresses import NOTIFICATIONS, WEBHOOKS
from placet.relay.tenants import Subscription

NONCE_BYTES = 12

MAX_PER_TASK = 100
MAX_ID_LENGTH = 1024
COURIER = "push"
# Together with the receiver's time to respond, this is less than the outbox's lease.
WAIT_FOR = timedelta(seconds=30)
RETRY_AFTER = timedelta(seconds=5)
GONE = 410
CONFIG_NOT_FOUND = "Push notification config not found."
CONFIG_CARRYING_OPERATIONS = SEND_OPERATIONS | {"push_create"}


class SecretBox:
    """Encrypts and decrypts with a key derived from the server's secret."""

    def __init__(self, secret: str) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"placet relay push\0" + secret.encode()).digest())

    def encrypt(self, plain: bytes, subject: str) -> bytes:
        """Return the bytes encrypted. They can only be decrypted with the same subject."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, subject.encode())

    def decrypt(self, encrypted: bytes, subject: str) -> bytes | None:
        """Return the decrypted bytes; None if the key or the subject is different."""
        try:
            return self._cipher.decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], subject.encode())
        except (InvalidTag, ValueError):
            return None

    def encrypt_id(self, *parts: str) -> str:
        """Return an id for URLs that cannot be guessed and contains the parts encrypted."""
        plain = "\0".join(parts).encode()
        return base64.urlsafe_b64encode(self.encrypt(plain, "name")).decode().rstrip("=")

    def decrypt_id(self, id: str) -> list[str] | None:
        """Return the parts of an id; None if `encrypt_id` did not create it."""
        try:
            encrypted = base64.urlsafe_b64decode(id + "=" * (-len(id) % 4))
        except ValueError:
            return None
        plain = self.decrypt(encrypted, "name")
        return None if plain is None else plain.decode().split("\0")


def hash_token(token: str) -> str:
    """Return the digest under which the relay stores a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_matches(token: str, digest: str) -> bool:
    """Return whether the token has this digest, in constant time."""
    return hmac.compare_digest(hash_token(token), digest)


def build_push_payload(reply: A2AReply, dialect: Dialect) -> Json:
    """Return the payload of a notification: an event in 1.0, a task in 0.3."""
    task = _build_task(reply)
    if dialect.legacy:
        return translate_task(task, REST_1_0, RPC_0_3)
    is_bare = any(reply.result is one for one in (reply.task, reply.status_update, reply.artifact_update))
    return {"task": translate_task(task, RPC_0_3, REST_1_0)} if is_bare else reply.result


def _build_task(reply: A2AReply) -> Json:
    """Return the notification as a task. Its state is working if the notification has none."""
    if reply.message is not None:
        message = translate_message(reply.message, REST_1_0)
        task: Json = {"id": reply.task_id, "contextId": reply.context_id, "history": [message]}
    else:
        merged = merge_events([reply])
        task = (merged.task if merged is not None else None) or {}
    return task if task.get("status") else task | {"status": {"state": "TASK_STATE_WORKING"}}


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


def format_delivery_target(webhook_id: str) -> str:
    """Return the target of a webhook's deliveries. The courier looks up the address when it sends one."""
    return f"{COURIER}:{webhook_id}"


class PushCourier:
    """A `Courier` that looks up callers' addresses; `post` sends the request."""

    def __init__(self, webhooks: WebhookRepository, post: Courier) -> None:
        self._webhooks = webhooks
        self._post = post
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def deliver(self, request: OutgoingRequest) -> DeliveryReply:
        """Send one notification, after those that are being sent to the same webhook."""
        webhook_id = request.url.removeprefix(f"{COURIER}:")
        lock = self._locks.setdefault(webhook_id, asyncio.Lock())
        try:
            async with asyncio.timeout(WAIT_FOR.total_seconds()):
                await lock.acquire()
        except TimeoutError:
            return DeliveryReply(
                status=None,
                error="earlier notifications are still being sent",
                took_for=WAIT_FOR,
                under_way=True,
                retry_after=RETRY_AFTER,
            )
        try:
            return await self._deliver(webhook_id, request)
        finally:
            lock.release()

    async def _deliver(self, webhook_id: str, request: OutgoingRequest) -> DeliveryReply:
        webhook = await self._webhooks.find(webhook_id)
        if webhook is None:
            return DeliveryReply(
                status=None, error="the webhook is closed", took_for=timedelta(0), refused=True
            )
        target = self._webhooks.decrypt_target(webhook)
        headers = {"Content-Type": "application/json", **target.headers()}
        reply = await self._post.deliver(OutgoingRequest(url=target.url, body=request.body, headers=headers))
        if reply.status == GONE:
            async with self._webhooks.lock(webhook_id):
                latest = await self._webhooks.find(webhook_id)
                if latest is not None:
                    await self._webhooks.close(latest)
        return reply


class PushOutbox:
    """Queues push notifications to callers."""

    def __init__(self, store: OutboxStore, *, now: Callable[[], datetime], wake: Callable[[], None]) -> None:
        self._store = store
        self._now = now
        self._wake = wake

    async def enqueue(self, webhook: PushWebhook, reply: A2AReply) -> None:
        """Queue a notification to the caller of a webhook, in the caller's A2A version."""
        now = self._now()
        delivery = Delivery(
            id=random_values.generate_message_id(),
            case_id="",
            event="push",
            owner=webhook.owner,
            courier=COURIER,
            target=format_delivery_target(webhook.id),
            body=msgspec.json.encode(build_push_payload(reply, webhook.dialect)),
            created_at=now,
            next_at=now,
        )
        await self._store.add_deliveries([delivery])
        self._wake()


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
