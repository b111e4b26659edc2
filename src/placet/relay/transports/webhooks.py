"""The endpoint that agents push to. It authenticates, matches the task, inspects and forwards."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from placet.errors import (
    CaseNotFound,
    InvalidJson,
    InvalidToken,
    MethodNotAllowed,
    RateLimited,
    Unavailable,
    ValidationFailed,
)
from placet.http.asgi import Receive, Scope, Send
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0, TERMINAL
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import Answered, CallWrites, Exchange, ExchangeState, pass_reply
from placet.relay.push import PushOutbox, PushWebhook, WebhookRepository, token_matches
from placet.relay.registry import LiveRegistry
from placet.relay.route_addresses import NOTIFICATIONS, WEBHOOKS
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.runtime.call_recorder import CallOutcome, CallRecorder
from placet.relay.task import Task
from placet.relay.tenants import Subscription
from placet.relay.transports.request_reading import ReadBody, get_path_below, read_body_in_time
from placet.relay.upstream.agent_client import JSON_TYPES

MAX_DIGESTS = 64
MAX_CONCURRENT = 64
MAX_PER_MINUTE = 600
WEBHOOK_NOT_FOUND = "Webhook not found."
TASK_NOT_FOUND = "The webhook belongs to another task."

_decode = msgspec.json.Decoder().decode


class WebhookEndpoint:
    """The ASGI app for `/relay/v1/webhooks/`."""

    def __init__(
        self,
        *,
        calls: CallHandler,
        webhooks: WebhookRepository,
        registry: LiveRegistry,
        outbox: PushOutbox,
        read_body: ReadBody,
        audit_log: AuditLog,
        monotonic: Callable[[], float],
    ) -> None:
        self._calls = calls
        self._webhooks = webhooks
        self._registry = registry
        self._tasks = calls.background_calls.tasks
        self._outbox = outbox
        self._notifier = calls.notifier
        self._read_body = read_body
        self._audit_log = audit_log
        self._recorder = CallRecorder(audit_log)
        self._monotonic = monotonic
        self._rate_limit = NotificationRateLimit(monotonic)
        self._in_progress: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one notification. Errors are raised, and the server sends them."""
        webhook = await self._authenticate(scope)
        if scope["method"] != "POST":
            raise MethodNotAllowed(allow="POST")
        self._rate_limit.count(webhook.id)
        with self._limit_concurrency(webhook):
            limits = self._calls.limits
            body = await read_body_in_time(self._read_body, scope, receive, limits, noun="notification")
            reply = _parse_notification(scope, body)
            async with self._webhooks.lock(webhook.id):
                await self._process(webhook.id, reply, len(body))
        headers = [(b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    @contextmanager
    def _limit_concurrency(self, webhook: PushWebhook) -> Iterator[None]:
        """Limit the concurrent notifications of one agent, so that it does not slow down the others."""
        agent = (webhook.tenant, webhook.agent)
        if self._in_progress[agent] >= MAX_CONCURRENT:
            raise RateLimited(
                f"{MAX_CONCURRENT} notifications of this agent are in progress. Send this one again later."
            )
        self._in_progress[agent] += 1
        try:
            yield
        finally:
            self._in_progress[agent] -= 1

    async def _authenticate(self, scope: Scope) -> PushWebhook:
        """Return the webhook of the request; raise if it does not exist or the token is wrong."""
        webhook_id = _get_webhook_id(scope)
        webhook = await self._webhooks.find(webhook_id) if webhook_id else None
        if webhook is None:
            raise CaseNotFound(WEBHOOK_NOT_FOUND)
        if not any(token_matches(token, webhook.token_digest) for token in _list_tokens(scope)):
            raise InvalidToken("The webhook's token is missing or wrong. Send the token of the push config.")
        return webhook

    async def _process(self, webhook_id: str, reply: A2AReply, size: int) -> None:
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


class NotificationRateLimit:
    """Limits the notifications of each webhook per minute."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._minute = -1
        self._counts: dict[str, int] = {}

    def count(self, webhook_id: str) -> None:
        """Count one notification; raise RateLimited if the webhook is over the limit."""
        minute = int(self._monotonic() // 60)
        if minute != self._minute:
            self._minute, self._counts = minute, {}
        count = self._counts[webhook_id] = self._counts.get(webhook_id, 0) + 1
        if count > MAX_PER_MINUTE:
            raise RateLimited(
                f"The webhook accepts {MAX_PER_MINUTE} notifications per minute. Try again in a minute."
            )


def _get_webhook_id(scope: Scope) -> str | None:
    below = get_path_below(scope, WEBHOOKS)
    return below[: -len(NOTIFICATIONS)] if below.endswith(NOTIFICATIONS) else None


def _list_tokens(scope: Scope) -> list[str]:
    """Return the tokens in the headers. Agents use different headers."""
    found = []
    for name, value in scope["headers"]:
        if name == b"x-a2a-notification-token":
            found.append(value.decode("latin-1"))
        elif name == b"authorization" and value[:7].lower() == b"bearer ":
            found.append(value[7:].strip().decode("latin-1"))
    return found[:4]


def _parse_notification(scope: Scope, body: bytes) -> A2AReply:
    content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    if content_type.decode("latin-1").partition(";")[0].strip().lower() not in JSON_TYPES:
        raise ValidationFailed("The content type is not JSON. Send application/json.")
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise InvalidJson from None
    if not isinstance(document, dict):
        raise ValidationFailed("The notification must be a JSON object.")
    reply = A2AReply(dialect=REST_1_0, operation="subscribe", document=document)
    try:
        _check_notification(reply)
    except A2AError as problem:
        raise ValidationFailed(problem.message) from problem
    return reply


def _check_notification(reply: A2AReply) -> None:
    """Raise A2AError if the notification is invalid. Reads every field that is used later."""
    contents = [reply.task, reply.status_update, reply.artifact_update, reply.message]
    if sum(one is not None for one in contents) != 1 or reply.error is not None:
        raise A2AError("params", "The notification must contain exactly one task, update or message.")
    if reply.task_id is not None and len(reply.task_id) > 512:
        raise A2AError("params", "The task id must have at most 512 characters.")
    if reply.context_id is not None and len(reply.context_id) > 512:
        raise A2AError("params", "The context id must have at most 512 characters.")


def _digest_notification(reply: A2AReply) -> str | None:
    """Return the digest that detects duplicates; None for artifact updates, which may be equal."""
    if reply.artifact_update is not None:
        return None
    return hashlib.sha256(msgspec.json.encode(reply.document)).hexdigest()[:32]


def _is_after_final(webhook: PushWebhook, reply: A2AReply) -> bool:
    """Return whether the notification is outdated: the task has already ended in another state."""
    return webhook.final_state is not None and reply.state != webhook.final_state
