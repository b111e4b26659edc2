"""Storage for passkeys and for the invitations with which people register them. It knows no cases."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class Passkey(Struct, frozen=True, kw_only=True):
    """A passkey of one person: the public key, never a secret."""

    id: str
    """The credential id, as base64url."""
    email: str
    """The person, by e-mail address."""
    name: str | None = None
    user_handle: str
    """What authenticators store for this person, as base64url; the same for all passkeys of a person."""
    public_key: str
    """The COSE key, as base64url."""
    sign_count: int = 0
    transports: tuple[str, ...] = ()
    is_synced: bool = False
    """Whether the authenticator keeps copies of it, for example in an account of the device's vendor."""
    label: str | None = None
    created_at: datetime
    used_at: datetime | None = None


class PasskeyInvitation(Struct, frozen=True, kw_only=True):
    """The right to register one passkey for one person. Only the digest of its token is stored."""

    digest: str
    email: str
    name: str | None = None
    user_handle: str
    expires_at: datetime


class PasskeyStore(Protocol):
    """Stores passkeys and invitations."""

    async def add_passkey_invitation(self, invitation: PasskeyInvitation, *, now: datetime) -> None:
        """Write a new invitation, and delete those that have expired."""
        ...

    async def get_passkey_invitation(self, digest: str) -> PasskeyInvitation | None:
        """Return the invitation, expired or not; None once it was used."""
        ...

    async def register_passkey(self, passkey: Passkey, *, invitation: str) -> None:
        """Write a new passkey and delete the invitation with this digest, in one transaction.

        Raises CaseConflict if the invitation was used before, or if the passkey is known already.
        """
        ...

    async def get_passkey(self, id: str) -> Passkey | None:
        """Return the passkey, or None if it is unknown or was removed."""
        ...

    async def list_passkeys(self) -> Sequence[Passkey]:
        """Return all passkeys, oldest first."""
        ...

    async def record_passkey_use(self, id: str, *, previous: int, sign_count: int, used_at: datetime) -> None:
        """Write the counter of a passkey that was used.

        Raises CaseConflict unless its counter is still `previous`: another use came first, or it was removed.
        """
        ...

    async def remove_passkey(self, id: str) -> None:
        """Delete a passkey. Raises CaseConflict if there is none."""
        ...
