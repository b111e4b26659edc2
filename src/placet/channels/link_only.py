"""What channels without buttons have in common: the person answers on the review page."""

from collections.abc import AsyncIterator, Sequence

from placet.errors import SettingsError
from placet.ports.channel import Interaction, WebhookRequest, WebhookResult


class LinkOnlyChannel:
    """The part of a `Channel` that receives nothing. `why` says so in a sentence."""

    why: str

    async def reply(self, interaction: Interaction, text: str) -> None:
        """Raise SettingsError: there are no buttons."""
        raise SettingsError(self.why)

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResult:
        """Raise SettingsError: nothing is received."""
        raise SettingsError(self.why)

    async def listen(self) -> AsyncIterator[Sequence[Interaction]]:
        """Raise SettingsError: nothing is received."""
        raise SettingsError(self.why)
        yield ()

    async def aclose(self) -> None:
        """Do nothing: no connection stays open between messages."""
