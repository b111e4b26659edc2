"""Shapes that the API's description needs and no handler builds: the flat error, and public documents."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from placet.errors import PlacetError


def wire_errors() -> tuple[type[PlacetError], ...]:
    """Every error that a caller can be told, in the order of their definition."""
    return tuple(error for error in _family(PlacetError) if error.status != 500)


def wire_codes() -> list[str]:
    """Every value of `error`, without repetition."""
    return list(dict.fromkeys(error.code for error in wire_errors()))


def _family(error: type[PlacetError]) -> Iterator[type[PlacetError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _family(kind)


ErrorCode = Annotated[
    str, Meta(description="What went wrong, for programs.", extra_json_schema={"enum": wire_codes()})
]


class Error(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every refusal: a code for programs, a sentence for people, and whatever else helps to fix it."""

    error: ErrorCode
    message: Annotated[str, Meta(description="What to fix, for people.")]
    case_id: str | None = None
    review_url: Annotated[
        str | None, Meta(description="Where the person can answer instead; carries no token.")
    ] = None
    path: Annotated[str | None, Meta(description="The place in your request that does not fit.")] = None
    fields: Annotated[dict[str, Any] | None, Meta(description="What is wrong, by the answer's field.")] = None
    retry_after: Annotated[int | None, Meta(description="Seconds to wait before you ask again.")] = None


class StreamedEvent(Struct, frozen=True, kw_only=True):
    """One server-sent event."""

    id: Annotated[str, Meta(description="Its number in the case's log; come back with the last you saw.")]
    event: Literal[
        "review.opened",
        "review.in_progress",
        "review.reminder",
        "review.completed",
        "review.expired",
        "review.cancelled",
    ]
    data: Annotated[
        str,
        Meta(
            description="What happened, as JSON on one line.",
            extra_json_schema={
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/EventData"},
            },
        ),
    ]


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sign of life."""

    status: Literal["ok", "ready"]
    concerns: Annotated[
        tuple[str, ...], Meta(description="What an operator should look at; left out if there is nothing.")
    ] = ()


class KeySet(Struct, frozen=True, kw_only=True):
    """Public keys as a JSON Web Key Set; empty when this server does not sign."""

    keys: tuple[dict[str, Any], ...]


class Discovery(Struct, frozen=True, kw_only=True):
    """What this service can do: a version with flat fields beside it up to 0.6, one object from 0.7 on."""

    hitl_protocol: str | dict[str, Any]
