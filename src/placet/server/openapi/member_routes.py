"""Addresses for members with permissions, as the description tells of them; what they are is their own."""

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import fields

from placet.errors import BodyTooLarge, InvalidJson, InvalidToken, NotPermitted, Unavailable, ValidationFailed
from placet.server.openapi.route import JSON, Body, Parameter, Reply, Route

TENANT_ID = Parameter(
    name="tenantId",
    where="query",
    type=Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,62}$(?!\\n)")],
    about="Where an administrator acts; the tenant `default` unless said. Others name their own, or none.",
)
IF_MATCH = Parameter(
    name="If-Match",
    where="header",
    type=str,
    about="What you saw, by its `rev` or `version`; if it has changed since, nothing is changed.",
)
TAGS = {
    "Agents": "The agents behind the relay, who may call them, and which of the two belong together.",
    "Groups": "Which keys of a tenant may see and decide what.",
    "Policies": "What the relay looks for in messages, and what it does when it finds it.",
    "Policy groups": "Policies in their order, to be bound together.",
    "Policy bindings": "Where groups of policies apply: everywhere, for one agent, between two.",
    "Approvals": "Messages that the relay holds until a person has decided.",
    "Audit": "What happened to every message, and how much of it is kept for how long.",
}
ALWAYS = (ValidationFailed, InvalidToken, NotPermitted, Unavailable)
WITH_BODY = (InvalidJson, BodyTooLarge)
_VARIABLE = re.compile(r"{(\w+)}")


def member_routes(addresses: Iterable[Any]) -> tuple[Route, ...]:
    """The routes of a `MemberApi`'s addresses, each with the words that it has for itself."""
    return tuple(_route(address) for address in addresses)


def _route(address: Any) -> Route:
    summary, more = _told(address.handle)
    about = " ".join(part for part in (more, address.about) if part)
    return Route(
        method=address.method.lower(),
        path=address.path,
        name=address.name,
        tag=address.tag,
        summary=summary,
        about=f"{about} {_needs(address.permissions)}".strip(),
        parameters=tuple(_parameters(address)),
        body=None
        if address.takes is None
        else Body(model=address.takes, about=_about(address.takes), examples={}),
        replies=(_reply(address),),
        errors=tuple(
            dict.fromkeys((*ALWAYS, *(WITH_BODY if address.takes is not None else ()), *address.errors))
        ),
    )


def _needs(permissions: tuple[str, ...]) -> str:
    named = " and ".join(f"`{one}`" for one in permissions)
    return f"Needs the permission{'s' if len(permissions) > 1 else ''} {named}."


def _told(handle: Any) -> tuple[str, str]:
    first, _, rest = (inspect.getdoc(handle) or "").partition("\n")
    return first.rstrip("."), " ".join(rest.split())


def _about(model: Any) -> str:
    return (inspect.getdoc(model) or "").partition("\n")[0] if inspect.isclass(model) else ""


def _reply(address: Any) -> Reply:
    if address.gives is not None:
        return Reply(status=address.status, about="Done.", model=address.gives, media=address.media)
    if address.media == JSON:
        return Reply(status=204, about="Done.")
    return Reply(status=address.status, about="Piece by piece.", model=str, media=address.media)


def _parameters(address: Any) -> Iterator[Parameter]:
    for name in _VARIABLE.findall(address.path):
        about = "As it was given when it was made."
        yield Parameter(name=name, where="path", type=Annotated[str, Meta(min_length=1)], about=about)
    if address.query is not None:
        yield from _asked(address.query)
    yield TENANT_ID
    if address.method in ("PUT", "DELETE"):
        yield IF_MATCH


def _asked(query: type[Struct]) -> Iterator[Parameter]:
    hints = get_type_hints(query, include_extras=True)
    for field in fields(query):
        hint, about = _bare(hints[field.name])
        yield Parameter(name=field.encode_name, where="query", type=hint, about=about)


def _bare(hint: Any) -> tuple[Any, str]:
    """A type that a query can carry, which is never null, and what is said of it."""
    about = ""
    extras: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *found = get_args(hint)
        extras = tuple(found)
        about = next((one.description for one in extras if isinstance(one, Meta) and one.description), "")
    if get_origin(hint) in (Union, UnionType):
        hint = reduce(or_, (kind for kind in get_args(hint) if kind is not NoneType))
    return (Annotated[(hint, *extras)] if extras else hint), about
