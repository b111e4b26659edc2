"""Build the parts that notify people, from the `[notify]` section of the settings."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from placet.channels.registry import split_address
from placet.desk.notifications import CaseNotifications
from placet.desk.review_desk import ReviewDesk
from placet.notify.button_references import ButtonReferences
from placet.notify.channel_pool import ChannelPool
from placet.notify.courier import NotificationCourier
from placet.notify.directory import SettingsDirectory
from placet.notify.presses import ButtonPresses
from placet.notify.receiving import InteractionReceiver
from placet.notify.settings import NotifySettings
from placet.ports.channel import Channel
from placet.ports.key_store import KeyStore
from placet.ports.outbox_store import OutboxStore
from placet.ports.push_store import PushStore

if TYPE_CHECKING:
    from placet.deliveries.guarded_http import GuardedHttp
    from placet.notify.web_push import WebPushSender


def build_case_notifications(
    settings: NotifySettings, *, outbox: OutboxStore, secret: str, message_id: Callable[[], str]
) -> CaseNotifications:
    """Return what the desk needs to choose recipients and to plan deliveries."""
    return CaseNotifications(
        directory=SettingsDirectory(settings),
        outbox=outbox,
        secret=secret,
        warn_before=settings.warn_before,
        message_id=message_id,
    )


async def read_push_key(settings: NotifySettings | None, store: KeyStore) -> str | None:
    """Return the key that signs web push messages, made once; None if no recipient has an address there."""
    if settings is None or not settings.push_addresses:
        return None
    # Imported here, because it is an extra of its own.
    from placet.notify.web_push import generate_private_key

    return await store.get_or_create_secret("web_push", generate_private_key())


def build_push_sender(
    settings: NotifySettings,
    *,
    store: PushStore,
    http: "GuardedHttp",
    private_key: str,
    public_url: str,
    now: Callable[[], datetime],
) -> "WebPushSender":
    """Return what notifies browsers."""
    from placet.notify.web_push import WebPushSender

    return WebPushSender(
        store=store,
        http=http,
        private_key=private_key,
        subject=settings.web_push_contact or public_url,
        hosts=settings.web_push_hosts,
        clock=now,
    )


def _open_push_channels(
    settings: NotifySettings, sender: "WebPushSender", now: Callable[[], datetime]
) -> Mapping[str, Channel]:
    from placet.notify.web_push import WebPushChannel

    return {
        address: WebPushChannel(split_address(address)[1], sender, clock=now)
        for address in settings.push_addresses
    }


class Notifier:
    """Sends the notifications of one server and receives the answers to them."""

    def __init__(
        self,
        settings: NotifySettings,
        *,
        desk: ReviewDesk,
        notifications: CaseNotifications,
        outbox: OutboxStore,
        secret: str,
        environ: Mapping[str, str],
        push: "WebPushSender | None" = None,
    ) -> None:
        """Open the channels. Raises SettingsError if the credentials of a platform are missing."""
        browsers = _open_push_channels(settings, push, desk.now) if push is not None else {}
        self._channels = ChannelPool(settings.addresses, environ, own=browsers)
        references = ButtonReferences(secret)
        presses = ButtonPresses(desk=desk, directory=notifications.directory, references=references)
        self.courier = NotificationCourier(
            desk=desk,
            notifications=notifications,
            outbox=outbox,
            channels=self._channels,
            references=references,
        )
        self.receiver = InteractionReceiver(
            self._channels.platforms, process=presses.process, environ=environ
        )

    async def aclose(self) -> None:
        """Stop listening and close the channels."""
        await self.receiver.stop()
        await self._channels.aclose()
