"""One address of the relay's API: what it is asked, and what it answers, without any HTTP."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from assent.relay.tenancy import Membership


class ApiRequest(Struct, frozen=True, kw_only=True):
    """What came in: who asks, for which tenant, with which words."""

    member: Membership
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""
    if_match: str | None = None
    """The header If-Match, as it came."""


class ApiRoute(Struct, frozen=True, kw_only=True):
    """A method and a path such as `/relay/v1/approvals/{id}`, and who answers there.

    The answer is a msgspec struct, or None for 204; what is refused is raised as an AssentError.
    """

    method: str
    path: str
    permission: str
    """What a member needs, such as `AGENT_CONVERSATIONS:READ`; checked before `handle` is called."""
    handle: Callable[[ApiRequest], Awaitable[Any]]
    status: int = 200
