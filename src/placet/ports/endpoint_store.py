"""Storage for the endpoints that receive callbacks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class Endpoint(Struct, frozen=True, kw_only=True):
    """A URL that receives callbacks, with its secret and, during rotation, the previous secret."""

    owner: str
    url: str
    secret: str
    previous_secret: str | None = None
    previous_until: datetime | None = None
    disabled_at: datetime | None = None
    created_at: datetime


class EndpointStore(Protocol):
    """Stores callback endpoints by owner and URL."""

    async def get_endpoint(self, owner: str, url: str) -> Endpoint | None:
        """Return the owner's endpoint at this URL."""
        ...

    async def list_endpoints(self, owner: str) -> Sequence[Endpoint]:
        """Return all endpoints of an owner."""
        ...

    async def save_endpoint(self, endpoint: Endpoint, *, after: Endpoint | None = None) -> None:
        """Write a new endpoint, or replace `after`. Raises CaseConflict if `after` is no longer stored."""
        ...
