"""Invitations to register a passkey, and the removal of passkeys."""

from datetime import datetime, timedelta

from placet.cases.tokens import digest_token
from placet.desk import random_values
from placet.errors import CaseConflict, ValidationFailed
from placet.ports.passkey_store import PasskeyInvitation, PasskeyStore
from placet.protocol.mail_address import is_mail_address
from placet.text.characters import contains_hidden

MAX_NAME_LENGTH = 100
DEFAULT_LIFETIME = timedelta(hours=24)


async def invite(
    store: PasskeyStore,
    email: str,
    *,
    now: datetime,
    name: str | None = None,
    lasts_for: timedelta = DEFAULT_LIFETIME,
) -> str:
    """Create an invitation for this person and return its token. It registers one passkey."""
    if not is_mail_address(email):
        raise ValidationFailed(f"{email[:80]!a} is not an e-mail address, such as ada@acme.example.")
    if name is not None and (
        not 1 <= len(name.strip()) <= MAX_NAME_LENGTH or not name.isprintable() or contains_hidden(name)
    ):
        raise ValidationFailed(f"A name is 1 to {MAX_NAME_LENGTH} printable characters.")
    token = random_values.generate_token()
    known = next((one for one in await store.list_passkeys() if one.email.lower() == email.lower()), None)
    await store.add_passkey_invitation(
        PasskeyInvitation(
            digest=digest_token(token),
            email=known.email if known else email,
            name=name or (known.name if known else None),
            user_handle=known.user_handle if known else random_values.generate_user_handle(),
            expires_at=now + lasts_for,
        ),
        now=now,
    )
    return token


async def remove_passkey(store: PasskeyStore, id: str) -> None:
    """Remove the passkey whose id begins with this text. Raises ValidationFailed unless it is one passkey."""
    found = [one for one in await store.list_passkeys() if one.id.startswith(id)] if id else []
    if len(found) != 1:
        raise ValidationFailed(f"{len(found) or 'No'} passkeys have an id that begins with {id[:50]!a}.")
    try:
        await store.remove_passkey(found[0].id)
    except CaseConflict:
        raise ValidationFailed(f"There is no passkey {id[:50]!a}.") from None
