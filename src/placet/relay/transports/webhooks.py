"""The endpoint that agents push to: it authenticates and parses notifications, and limits their number."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from placet.errors import (
    CaseNotFound,
    InvalidJson,
    InvalidToken,
    MethodNotAllowed,
    RateLimited,
    ValidationFailed,
)
from placet.http.asgi import (
    NO_STORE,
    RawReply,
    Receive,
    Scope,
    Send,
    get_route_path,
    send_reply,
)
from placet.relay.a2a.dialects import REST_1_0
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import A2AReply
from placet.relay.push import PushWebhook, WebhookRepository, token_matches
from placet.relay.route_addresses import NOTIFICATIONS, WEBHOOKS
from placet.relay.runtime.notifications import WEBHOOK_NOT_FOUND, NotificationHandler
from placet.relay.settings import RelayLimits
from placet.relay.transports.request_reading import ReadBody, read_body_in_time
from placet.relay.upstream.agent_client import JSON_TYPES

MAX_CONCURRENT = 64
MAX_PER_MINUTE = 600

_decode = msgspec.json.Decoder().decode


class WebhookEndpoint:
    """The ASGI app for `/relay/v1/webhooks/`."""

    def __init__(
        self,
        *,
        notifications: NotificationHandler,
        webhooks: WebhookRepository,
        limits: RelayLimits,
        read_body: ReadBody,
        monotonic: Callable[[], float],
    ) -> None:
        self._notifications = notifications
        self._webhooks = webhooks
        self._limits = limits
        self._read_body = read_body
        self._rate_limit = NotificationRateLimit(monotonic)
        self._in_progress: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one notification. Errors are raised, and the server sends them."""
        webhook = await self._authenticate(scope)
        if scope["method"] != "POST":
            raise MethodNotAllowed(allow="POST")
        self._rate_limit.count(webhook.id)
        with self._limit_concurrency(webhook):
            body = await read_body_in_time(self._read_body, scope, receive, self._limits, noun="notification")
            await self._notifications.handle(webhook.id, _parse_notification(scope, body), len(body))
        await send_reply(send, RawReply(204, [NO_STORE], b""))

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
    below = get_route_path(scope).removeprefix(WEBHOOKS)
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
