"""Build the parts that notify people, from the `[notify]` section of the settings."""

from collections.abc import Callable, Mapping

from placet.desk.notifications import CaseNotifications
from placet.desk.review_desk import ReviewDesk
from placet.notify.button_references import ButtonReferences
from placet.notify.channel_pool import ChannelPool
from placet.notify.courier import NotificationCourier
from placet.notify.directory import SettingsDirectory
from placet.notify.presses import ButtonPresses
from placet.notify.receiving import InteractionReceiver
from placet.notify.settings import NotifySettings
from placet.ports.outbox_store import OutboxStore


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
    ) -> None:
        """Open the channels. Raises SettingsError if the credentials of a platform are missing."""
        self._channels = ChannelPool(settings.addresses, environ)
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
