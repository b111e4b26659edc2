"""The interface to the creation of passkeys."""

from datetime import datetime
from typing import Protocol

from placet.ports.passkey_store import Passkey, PasskeyInvitation


class PasskeyRegistration(Protocol):
    """Lets a person with an invitation create a passkey."""

    async def describe(self, invitation: PasskeyInvitation) -> str:
        """Return the options for the browser, as JSON."""
        ...

    async def register(self, invitation: PasskeyInvitation, credential: str, *, now: datetime) -> Passkey:
        """Store the new passkey and use up the invitation. Raises VerificationFailed if it is not valid."""
        ...
