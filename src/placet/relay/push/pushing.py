"""The parts that push to callers, joined."""

from collections.abc import Callable

from placet.ports.courier import Courier
from placet.relay.asgi import ReadBody
from placet.relay.audit.trail import Trail
from placet.relay.membership.registry import Registry
from placet.relay.push.courier import PushCourier
from placet.relay.push.notices import Notices
from placet.relay.push.notifier import Notifier
from placet.relay.push.pushes import Pushes
from placet.relay.push.reception import Reception
from placet.relay.traffic.calls import Calls


class Pushing:
    """What comes in from agents, what goes out to callers, and who tells them of a task that the relay took.

    `post` takes a message to an address that came from outside.
    """

    def __init__(
        self,
        pushes: Pushes,
        *,
        notices: Notices,
        calls: Calls,
        registry: Registry,
        trail: Trail,
        read_body: ReadBody,
        post: Courier,
        monotonic: Callable[[], float],
    ) -> None:
        webhooks = pushes.webhooks
        self.notifier = Notifier(calls=calls, webhooks=webhooks, notices=notices)
        self.courier = PushCourier(webhooks, post)
        self.reception = Reception(
            calls=calls,
            webhooks=webhooks,
            registry=registry,
            notices=notices,
            notifier=self.notifier,
            read_body=read_body,
            trail=trail,
            monotonic=monotonic,
        )
        pushes.decided = self.notifier.decided
