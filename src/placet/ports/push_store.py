"""Storage for web push subscriptions: the browsers in which people have turned on notifications."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class PushSubscription(Struct, frozen=True, kw_only=True):
    """One browser of a person. The endpoint and the keys come from the browser."""

    owner: str
    """The name of the key with which the person signed in to the inbox."""
    endpoint: str
    p256dh: str
    """The public key of the browser, as base64url; messages are encrypted with it."""
    auth: str
    """The secret that the browser shares with us, as base64url."""
    created_at: datetime


class PushStore(Protocol):
    """Stores web push subscriptions."""

    async def save_push_subscription(self, subscription: PushSubscription, *, most: int) -> None:
        """Write a subscription, in place of any with its endpoint; keep the newest `most` of its owner."""
        ...

    async def list_push_subscriptions(self, owner: str) -> Sequence[PushSubscription]:
        """Return the subscriptions of a person, oldest first."""
        ...

    async def delete_push_subscription(self, endpoint: str) -> None:
        """Delete the subscription with this endpoint, if it exists."""
        ...
