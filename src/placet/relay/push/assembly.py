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
    """What comes in from agents, what goes out to callers, and who tells them of a task that the relay took.

    `post` takes a message to an address that came from outside.
    """

    def __init__(
        self,
        pushes: PushProxy,
        *,
        notices: PushOutbox,
        calls: CallHandler,
        registry: Registry,
        trail: AuditLog,
        read_body: ReadBody,
        post: Courier,
        monotonic: Callable[[], float],
    ) -> None:
        webhooks = pushes.webhooks
        self.notifier = TaskNotifier(calls=calls, webhooks=webhooks, notices=notices)
        self.courier = PushCourier(webhooks, post)
        self.reception = WebhookEndpoint(
            calls=calls,
            webhooks=webhooks,
            registry=registry,
            notices=notices,
            notifier=self.notifier,
            read_body=read_body,
            trail=trail,
            monotonic=monotonic,
        )
        pushes.notify = self.notifier.notify
