"""Build and connect the parts that handle push notifications."""

from collections.abc import Callable

from placet.ports.courier import Courier
from placet.relay.asgi import ReadBody
from placet.relay.audit.audit_log import AuditLog
from placet.relay.push.courier import PushCourier
from placet.relay.push.outbox import PushOutbox
from placet.relay.push.push_proxy import PushProxy
from placet.relay.push.task_notifier import TaskNotifier
from placet.relay.push.webhook_endpoint import WebhookEndpoint
from placet.relay.registry.subscriptions import Registry
from placet.relay.traffic.call_handler import CallHandler


class PushSubsystem:
    """The webhook endpoint for agents, the courier to callers, and the notifier of tasks.

    `post` sends requests to addresses that callers gave.
    """

    def __init__(
        self,
        push_proxy: PushProxy,
        *,
        outbox: PushOutbox,
        calls: CallHandler,
        registry: Registry,
        audit_log: AuditLog,
        read_body: ReadBody,
        post: Courier,
        monotonic: Callable[[], float],
    ) -> None:
        webhooks = push_proxy.webhooks
        self.notifier = TaskNotifier(calls=calls, webhooks=webhooks, outbox=outbox)
        self.courier = PushCourier(webhooks, post)
        self.endpoint = WebhookEndpoint(
            calls=calls,
            webhooks=webhooks,
            registry=registry,
            outbox=outbox,
            notifier=self.notifier,
            read_body=read_body,
            audit_log=audit_log,
            monotonic=monotonic,
        )
        push_proxy.notify = self.notifier.notify
