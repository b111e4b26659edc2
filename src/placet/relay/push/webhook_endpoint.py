"""The endpoint that agents push to: authenticate, match the task, inspect, and forward."""

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
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import REST_1_0, TERMINAL
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.asgi import ReadBody, Receive, Scope, Send, get_path_below, read_body_in_time
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.call_recorder import CallOutcome, CallRecorder
from placet.relay.push.encryption import token_matches
from placet.relay.push.outbox import PushOutbox
from placet.relay.push.task_notifier import TaskNotifier
from placet.relay.push.webhooks import PREFIX, SUFFIX, PushWebhook, WebhookRepository
from placet.relay.registry.subscriptions import Registry, Subscription
from placet.relay.tasks.task_repository import Task
from placet.relay.traffic.call_handler import CallHandler
from placet.relay.traffic.exchange import AnsweredByRelay, Exchange
from placet.relay.upstream.agent_client import JSON_TYPES

MAX_SEEN = 64
MAX_CONCURRENT = 64
MAX_PER_MINUTE = 600
WEBHOOK_NOT_FOUND = "There is no such webhook."
TASK_NOT_FOUND = "This webhook is not for that task."

_decode = msgspec.json.Decoder().decode


class WebhookEndpoint:
    """Everything below `/relay/v1/webhooks/`."""

    def __init__(
        self,
        *,
        calls: CallHandler,
        webhooks: WebhookRepository,
        registry: Registry,
        notices: PushOutbox,
        notifier: TaskNotifier,
        read_body: ReadBody,
        trail: AuditLog | None = None,
        monotonic: Callable[[], float],
    ) -> None:
        self._calls = calls
        self._webhooks = webhooks
        self._registry = registry
        self._book = calls.overdue.book
        self._notices = notices
        self._notifier = notifier
        self._read_body = read_body
        self._audit = CallRecorder(trail) if trail is not None else None
        self._monotonic = monotonic
        self._pace = NotificationRateLimit(monotonic)
        self._under_way: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one notification in; what is refused is raised for the server to tell."""
        webhook = await self._webhook(scope)
        if scope["method"] != "POST":
            raise MethodNotAllowed(allow="POST")
        self._pace.count(webhook.id)
        with self._room_for(webhook):
            limits = self._calls.limits
            body = await read_body_in_time(self._read_body, scope, receive, limits, noun="notification")
            reply = _parse_notification(scope, body)
            async with self._webhooks.lock(webhook.id):
                await self._process(webhook.id, reply, len(body))
        headers = [(b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    @contextmanager
    def _room_for(self, webhook: PushWebhook) -> Iterator[None]:
        """An agent that pushes slowly, or very much at once, is in nobody's way but its own."""
        agent = (webhook.tenant, webhook.agent)
        if self._under_way[agent] >= MAX_CONCURRENT:
            raise RateLimited(f"{MAX_CONCURRENT} notifications of this agent are under way.")
        self._under_way[agent] += 1
        try:
            yield
        finally:
            self._under_way[agent] -= 1

    async def _webhook(self, scope: Scope) -> PushWebhook:
        """The webhook that is meant, once its token has been shown."""
        webhook_id = _get_webhook_id(scope)
        webhook = await self._webhooks.find(webhook_id) if webhook_id else None
        if webhook is None:
            raise CaseNotFound(WEBHOOK_NOT_FOUND)
        if not any(token_matches(token, webhook.token) for token in _list_tokens(scope)):
            raise InvalidToken("This is not the webhook's token.")
        return webhook

    async def _process(self, webhook_id: str, reply: A2AReply, size: int) -> None:
        webhook = await self._webhooks.find(webhook_id)
        if webhook is None:
            raise CaseNotFound(WEBHOOK_NOT_FOUND)
        subscription = await self._registry.subscription(webhook.owner, webhook.agent)
        if subscription.tenant != webhook.tenant:
            raise CaseNotFound(WEBHOOK_NOT_FOUND)
        webhook = await self._match_task(subscription, webhook, reply)
        mark = _digest_notification(reply)
        if mark in webhook.seen or _is_after_final(webhook, reply) or await self._is_relay_task(webhook):
            return
        exchange = _build_exchange(subscription, webhook, size)
        is_withheld = self._calls.is_withheld(exchange)
        if is_withheld and reply.artifact_update is not None:
            return  # told whole in the end: what is looked for may stand half in this piece, half in the next
        told = await self._inspect(exchange, reply)
        if is_withheld and told is not None and told.status_update is not None and told.final:
            told = await self._fetch_whole_task(subscription, webhook, told)
        if told is not None:
            await self._notices.enqueue(webhook, told)
        final = told.state if told is not None and told.state in TERMINAL else webhook.final
        seen = (*webhook.seen, mark)[-MAX_SEEN:] if mark else webhook.seen
        await self._webhooks.save(replace(webhook, seen=seen, final=final))

    async def _match_task(
        self, subscription: Subscription, webhook: PushWebhook, reply: A2AReply
    ) -> PushWebhook:
        """The webhook, bound to the task that the notification names; raises for any other task."""
        task_id = reply.task_id
        if task_id is None:
            raise ValidationFailed("The notification does not name its task.")
        if webhook.task not in (None, task_id):
            raise CaseNotFound(TASK_NOT_FOUND)
        tenant, agent = webhook.tenant, webhook.agent
        entry = await self._book.find(tenant, agent, "task", task_id)
        if entry is not None and (entry.owner != webhook.owner or entry.upstream_id != task_id):
            raise CaseNotFound(TASK_NOT_FOUND)
        if webhook.task is not None:
            return webhook
        if entry is None and webhook.shown is not None:
            # The caller was given a name of the relay's before the agent had said its own.
            entry = Task(
                id=task_id,
                owner=webhook.owner,
                upstream_id=task_id,
                shown_as=webhook.shown,
                context_id=reply.context_id,
            )
            await self._book.write(tenant, agent, "task", entry)
        shown = task_id if entry is None or entry.shown_as is None else entry.shown_as
        return await self._webhooks.bind(webhook, task=task_id, shown=shown, config=None)

    async def _is_relay_task(self, webhook: PushWebhook) -> bool:
        """Whether the relay speaks for the task: the caller is told when a person has decided."""
        entry = await self._book.find(webhook.tenant, webhook.agent, "task", webhook.shown or "")
        return entry is not None and (entry.hold_id is not None or entry.ending is not None)

    async def _fetch_whole_task(
        self, subscription: Subscription, webhook: PushWebhook, told: A2AReply
    ) -> A2AReply:
        """The whole task that has ended, or what stands for it while a person looks at it."""
        try:
            whole = await self._notifier.current(subscription, webhook)
        except A2AError:
            return told
        if whole is None or not (whole.final or await self._is_relay_task(webhook)):
            return told
        return whole

    async def _inspect(self, exchange: Exchange, reply: A2AReply) -> A2AReply | None:
        """What the caller may be told; None if nothing. Raises while it cannot be said."""
        began = self._monotonic()
        told: A2AReply | None = None
        problem: A2AError | None = None
        try:
            if self._audit is not None:
                self._audit.admit()
            told = await self._calls.process_reply(exchange, reply)
        except AnsweredByRelay as taken:
            told = (await self._calls.answer_from_relay(exchange, taken)).reply
        except A2AError as found:
            problem = found
        if self._audit is not None:
            took_for = timedelta(seconds=self._monotonic() - began)
            self._audit.note(exchange, CallOutcome(status=204, size=0, reply=told, problem=problem), took_for)
        if problem is None or problem.kind == "refused":
            return told
        if problem.kind in ("internal", "busy"):
            raise Unavailable("The notification could not be checked; send it again later.") from problem
        raise CaseNotFound(TASK_NOT_FOUND) from problem


def _build_exchange(subscription: Subscription, webhook: PushWebhook, size: int) -> Exchange:
    """The way of a notification: back from the agent, with no call that it answers."""
    return Exchange(
        subscription=subscription,
        call=A2ACall(dialect=REST_1_0, operation="subscribe", path_task=webhook.shown),
        correlation_id=webhook.correlation_id,
        headers={},
        size=size,
        pushed=True,
    )


class NotificationRateLimit:
    """How many notifications a webhook takes in within a minute."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._minute = -1
        self._counts: dict[str, int] = {}

    def count(self, webhook_id: str) -> None:
        """Raise RateLimited for one too many."""
        minute = int(self._monotonic() // 60)
        if minute != self._minute:
            self._minute, self._counts = minute, {}
        count = self._counts[webhook_id] = self._counts.get(webhook_id, 0) + 1
        if count > MAX_PER_MINUTE:
            raise RateLimited(f"A webhook takes {MAX_PER_MINUTE} notifications a minute.")


def _get_webhook_id(scope: Scope) -> str | None:
    below = get_path_below(scope, PREFIX)
    return below[: -len(SUFFIX)] if below.endswith(SUFFIX) else None


def _list_tokens(scope: Scope) -> list[str]:
    """Every token that is shown: agents differ in which header they use."""
    found = []
    for name, value in scope["headers"]:
        if name == b"x-a2a-notification-token":
            found.append(value.decode("latin-1"))
        elif name == b"authorization" and value[:7].lower() == b"bearer ":
            found.append(value[7:].strip().decode("latin-1"))
    return found[:4]


def _parse_notification(scope: Scope, body: bytes) -> A2AReply:
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    if kind.decode("latin-1").partition(";")[0].strip().lower() not in JSON_TYPES:
        raise ValidationFailed("Send application/json.")
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise InvalidJson from None
    if not isinstance(document, dict):
        raise ValidationFailed("A notification is a JSON object.")
    reply = A2AReply(dialect=REST_1_0, operation="subscribe", document=document)
    try:
        _check_notification(reply)
    except A2AError as problem:
        raise ValidationFailed(problem.message) from problem
    return reply


def _check_notification(reply: A2AReply) -> None:
    """Read everything once that will be read later."""
    about = [reply.task, reply.status_update, reply.artifact_update, reply.message]
    if sum(one is not None for one in about) != 1 or reply.error is not None:
        raise A2AError("params", "A notification is a task, or one change of it.")
    if reply.task_id is not None and len(reply.task_id) > 512:
        raise A2AError("params", "An id is at most 512 characters.")
    if reply.context_id is not None and len(reply.context_id) > 512:
        raise A2AError("params", "An id is at most 512 characters.")


def _digest_notification(reply: A2AReply) -> str | None:
    """What a notification is known by if it comes again; a piece of work may look like the one before."""
    if reply.artifact_update is not None:
        return None
    return hashlib.sha256(msgspec.json.encode(reply.document)).hexdigest()[:32]


def _is_after_final(webhook: PushWebhook, reply: A2AReply) -> bool:
    """Whether the task has ended otherwise: what comes now is old."""
    return webhook.final is not None and reply.state != webhook.final
