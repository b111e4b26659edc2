"""Handle the push notifications of agents: match the task, inspect them, and queue them for the callers."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from placet.errors import CaseNotFound, Unavailable, ValidationFailed
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0, TERMINAL
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import Answered, CallWrites, Exchange, ExchangeState, pass_reply
from placet.relay.push import PushOutbox, PushWebhook, WebhookRepository
from placet.relay.registry import LiveRegistry
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.runtime.call_recorder import CallOutcome, CallRecorder
from placet.relay.task import Task
from placet.relay.tenants import Subscription

MAX_DIGESTS = 64
WEBHOOK_NOT_FOUND = "Webhook not found."
TASK_NOT_FOUND = "The webhook belongs to another task."


class NotificationHandler:
    """Handles notifications to the relay's webhooks."""

    def __init__(
        self,
        *,
        calls: CallHandler,
        webhooks: WebhookRepository,
        registry: LiveRegistry,
        outbox: PushOutbox,
        audit_log: AuditLog,
        monotonic: Callable[[], float],
    ) -> None:
        self._calls = calls
        self._webhooks = webhooks
        self._registry = registry
        self._tasks = calls.background_calls.tasks
        self._outbox = outbox
        self._notifier = calls.notifier
        self._audit_log = audit_log
        self._recorder = CallRecorder(audit_log)
        self._monotonic = monotonic

    async def handle(self, webhook_id: str, reply: A2AReply, size: int) -> None:
        """Match the task of a notification, inspect it, and queue what its caller may get.

        Raises CaseNotFound, ValidationFailed, or Unavailable if the agent should send it again.
        """
        async with self._webhooks.lock(webhook_id):
            await self._handle(webhook_id, reply, size)

    async def _handle(self, webhook_id: str, reply: A2AReply, size: int) -> None:
        webhook = await self._webhooks.find(webhook_id)
        if webhook is None:
            raise CaseNotFound(WEBHOOK_NOT_FOUND)
        subscription = await self._registry.subscription(webhook.owner, webhook.agent)
        if subscription.tenant != webhook.tenant:
            raise CaseNotFound(WEBHOOK_NOT_FOUND)
        webhook = await self._match_task(subscription, webhook, reply)
        digest = _digest_notification(reply)
        if (
            digest in webhook.recent_digests
            or _is_after_final(webhook, reply)
            or await self._is_relay_task(webhook)
        ):
            return
        writes = CallWrites()
        exchange = _build_exchange(subscription, webhook, size, ExchangeState(writes=writes))
        is_withheld = self._calls.plan_stream(exchange).is_withheld
        if is_withheld and reply.artifact_update is not None:
            return  # the whole task is pushed at the end, because a match can span two updates
        try:
            inspected = await self._inspect(exchange, reply)
        finally:
            self._audit_log.discard(writes)  # after a failed inspection no audit event writes the rest
        if is_withheld and inspected is not None and inspected.status_update is not None and inspected.final:
            inspected = await self._fetch_whole_task(subscription, webhook, inspected)
        if inspected is not None:
            await self._outbox.enqueue(webhook, inspected)
        digests = (*webhook.recent_digests, digest)[-MAX_DIGESTS:] if digest else webhook.recent_digests
        state = None if inspected is None else inspected.state
        final_state = state if state in TERMINAL else webhook.final_state
        await self._webhooks.save(replace(webhook, recent_digests=digests, final_state=final_state))

    async def _match_task(
        self, subscription: Subscription, webhook: PushWebhook, reply: A2AReply
    ) -> PushWebhook:
        """Return the webhook, bound to the notification's task; raise if it is bound to another task."""
        task_id = reply.task_id
        if task_id is None:
            raise ValidationFailed(
                "The notification has no task id. Send a task, or an update with a task id."
            )
        if webhook.agent_task_id not in (None, task_id):
            raise CaseNotFound(TASK_NOT_FOUND)
        tenant, agent = webhook.tenant, webhook.agent
        task = await self._tasks.find(tenant, agent, "task", task_id)
        if task is not None and (task.owner != webhook.owner or task.upstream_id != task_id):
            raise CaseNotFound(TASK_NOT_FOUND)
        if webhook.agent_task_id is not None:
            return webhook
        if task is None and webhook.caller_task_id is not None:
            # The relay gave the caller a task id before the agent sent its own.
            task = Task(
                id=task_id,
                owner=webhook.owner,
                upstream_id=task_id,
                caller_task_id=webhook.caller_task_id,
                context_id=reply.context_id,
            )
            await self._tasks.write(tenant, agent, "task", task)
        caller_task_id = task_id if task is None or task.caller_task_id is None else task.caller_task_id
        return await self._webhooks.bind(
            webhook, agent_task_id=task_id, caller_task_id=caller_task_id, config_id=None
        )

    async def _is_relay_task(self, webhook: PushWebhook) -> bool:
        """Return whether the relay answers for the task. It notifies the caller itself after the decision."""
        task = await self._tasks.find(webhook.tenant, webhook.agent, "task", webhook.caller_task_id or "")
        return task is not None and task.is_kept_by_relay

    async def _fetch_whole_task(
        self, subscription: Subscription, webhook: PushWebhook, update: A2AReply
    ) -> A2AReply:
        """Return the whole task that has ended or is held; `update` if the task is in another state."""
        try:
            task = await self._notifier.fetch_task(subscription, webhook)
        except A2AError:
            return update
        if task is None or not (task.final or await self._is_relay_task(webhook)):
            return update
        return task

    async def _inspect(self, exchange: Exchange, reply: A2AReply) -> A2AReply | None:
        """Return what the caller may get, or None. Raises if the notification could not be inspected."""
        began = self._monotonic()
        inspected: A2AReply | None = None
        problem: A2AError | None = None
        try:
            self._recorder.check_capacity()
            passed = await self._calls.run(exchange, pass_reply(reply))
            if isinstance(passed, Answered):
                inspected = (await self._calls.answer_from_relay(exchange, passed)).reply
            else:
                inspected = passed
        except A2AError as error:
            problem = error
        took_for = timedelta(seconds=self._monotonic() - began)
        outcome = CallOutcome(status=204, size=0, reply=inspected, problem=problem)
        self._recorder.record(exchange, outcome, took_for)
        if problem is None or problem.kind == "refused":
            return inspected
        if problem.kind in ("internal", "busy"):
            raise Unavailable("The notification could not be inspected. Send it again later.") from problem
        raise CaseNotFound(TASK_NOT_FOUND) from problem


def _build_exchange(
    subscription: Subscription, webhook: PushWebhook, size: int, state: ExchangeState
) -> Exchange:
    """Return the exchange of a notification: a response from the agent without a request."""
    return Exchange(
        subscription=subscription,
        call=A2ACall(dialect=REST_1_0, operation="subscribe", path_task=webhook.caller_task_id),
        correlation_id=webhook.correlation_id,
        headers={},
        size=size,
        pushed=True,
        state=state,
    )


def _digest_notification(reply: A2AReply) -> str | None:
    """Return the digest that detects duplicates; None for artifact updates, which may be equal."""
    if reply.artifact_update is not None:
        return None
    return hashlib.sha256(msgspec.json.encode(reply.document)).hexdigest()[:32]


def _is_after_final(webhook: PushWebhook, reply: A2AReply) -> bool:
    """Return whether the notification is outdated: the task has already ended in another state."""
    return webhook.final_state is not None and reply.state != webhook.final_state
