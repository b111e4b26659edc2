"""One address of the relay's API: what it is asked, and what it answers, without any HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from placet.errors import InvalidJson, PlacetError, ValidationFailed
from placet.protocol.shape import complaint
from placet.relay.membership.tenancy import Membership

T = TypeVar("T")


class ApiRequest(Struct, frozen=True, kw_only=True):
    """What came in: who asks, for which tenant, with which words."""

    member: Membership
    path: Mapping[str, str]
    query: Mapping[str, str]
    """The query by name, without an administrator's `tenantId`, which `member.tenant` has followed."""
    body: bytes = b""
    if_match: str | None = None
    """The header If-Match, as it came."""


class ApiStream(Struct, frozen=True, kw_only=True):
    """An answer of any length, sent piece by piece and no faster than it is taken.

    The first piece is fetched before the status is sent, so that what is refused can still be told; an error
    after it breaks the answer off.
    """

    pieces: AsyncIterator[bytes]
    media: str = "application/x-ndjson"
    filename: str | None = None
    """What a browser saves it as."""


class ApiRoute(Struct, frozen=True, kw_only=True):
    """A method and a path such as `/relay/v1/approvals/{id}`, and who answers there.

    The answer is a msgspec struct, None for 204, or an async iterator of bytes for what is sent bit by bit as
    `media`; what is refused is raised as a PlacetError.
    """

    method: str
    path: str
    permission: str
    """What a member needs, such as `AGENT_CONVERSATIONS:READ`; checked before `handle` is called."""
    handle: Callable[[ApiRequest], Awaitable[Any]]
    status: int = 200
    besides: tuple[str, ...] = ()
    """What a member needs as well as `permission`."""

    # How the API's description tells of it
    name: str
    """The operation's name, such as `listApprovals`; no two routes share one."""
    tag: str
    """Under which heading it is described, such as `Approvals`."""
    about: str = ""
    """What a caller should know; the first line of `handle`'s docstring is the summary."""
    query: type[Struct] | None = None
    """What may stand in the query: a struct for `read_query`, with a `Meta` description of each field."""
    repeats: tuple[str, ...] = ()
    """What may stand in the query more than once; it is given as one text, with commas between."""
    takes: Any = None
    """What the body is: a struct for `read_json`, which refuses unknown fields; None for no body."""
    gives: Any = None
    """What the answer is; None for 204, or for what `media` says."""
    media: str = "application/json"
    errors: tuple[type[PlacetError], ...] = ()
    """How it refuses, besides what every route may: 401, 403, 503, and 400 and 413 with a body or a query."""

    @property
    def permissions(self) -> tuple[str, ...]:
        """All that a member needs."""
        return (self.permission, *self.besides)


def read_json(request: ApiRequest, model: type[T]) -> T:
    """The body as this model; raises InvalidJson or ValidationFailed with what to fix."""
    try:
        return msgspec.json.decode(request.body, type=model)
    except msgspec.ValidationError as misfit:
        raise _refusal(misfit, model) from misfit
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidJson(f"The body is not valid JSON: {error}.") from error


def read_query(request: ApiRequest, model: type[T]) -> T:
    """The query as this model, texts made into its numbers and moments; raises ValidationFailed."""
    try:
        found = msgspec.convert(dict(request.query), model, strict=False)
    except msgspec.ValidationError as misfit:
        raise _refusal(misfit, model) from misfit
    for name in request.query:
        # What is not asked for is left out; the text "null" says nothing else.
        if request.query[name].lower() == "null" and _is_none(found, name):
            raise ValidationFailed(f"{name}: null is no value; leave it out.")
    return found


def _is_none(found: Any, name: str) -> bool:
    return any(one.encode_name == name and getattr(found, one.name) is None for one in fields(found))


def _refusal(misfit: msgspec.ValidationError, model: Any) -> ValidationFailed:
    reason, path = complaint(misfit, model)
    place = path.lstrip(".")
    return ValidationFailed(f"{place}: {reason}." if place else f"{reason}.")
