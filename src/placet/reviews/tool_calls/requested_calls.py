"""The tool calls in the context of a case; errors name the path that is not valid."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from placet.errors import ValidationFailed
from placet.protocol.conversion import convert_input, quote

CALLS, AUTOMATIC = "tool_calls", "automatic"
MAX_CALLS = 200
MAX_AUTOMATIC_CALLS = 1_000

DecisionName = Literal["approve", "edit", "reject", "respond"]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class AutomaticCall(Struct, frozen=True, kw_only=True):
    """A call of the same turn that needs no decision: it runs together with the others."""

    id: Name
    name: Name
    arguments: dict[str, Any]


class RequestedCall(AutomaticCall, frozen=True, kw_only=True):
    """A call that waits for a decision, with what the reviewer needs to decide."""

    description: Annotated[str, Meta(max_length=10_000)] = ""
    schema: dict[str, Any] | None = None
    allowed_decisions: Annotated[tuple[DecisionName, ...], Meta(min_length=1)] = ("approve", "edit", "reject")
    path: Annotated[tuple[Name, ...], Meta(max_length=32)] = ()
    high_risk: bool | None = None
    """None if the agent did not say."""


class RequestedCalls(Struct, frozen=True, kw_only=True):
    """All calls of one turn of an agent."""

    calls: tuple[RequestedCall, ...]
    automatic: tuple[AutomaticCall, ...] = ()


class CallGroup(Struct, frozen=True, kw_only=True):
    """Calls that differ only in their ids. They are decided together."""

    number: int
    ids: tuple[str, ...]
    call: RequestedCall


def has_tool_calls(context: Mapping[str, Any]) -> bool:
    """Whether a context has tool calls."""
    return CALLS in context


def read_requested_calls(context: Mapping[str, Any]) -> RequestedCalls:
    """Return the calls of a context; raise ValidationFailed that names the invalid path."""
    where = f"context.{CALLS}"
    calls = convert_input(context.get(CALLS), tuple[RequestedCall, ...], ValidationFailed, where)
    if not 0 < len(calls) <= MAX_CALLS:
        raise ValidationFailed(f"{where} holds {len(calls)} calls; send 1 to {MAX_CALLS}.", path=where)
    automatic = _read_automatic(context)
    _check_distinct([*calls, *automatic], where)
    return RequestedCalls(calls=calls, automatic=automatic)


def list_schemas(asked: RequestedCalls) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the schemas of the tools, each with its path."""
    return tuple(
        (f"context.{CALLS}[{number}].schema", call.schema)
        for number, call in enumerate(asked.calls)
        if call.schema is not None
    )


def group_calls(asked: RequestedCalls) -> tuple[CallGroup, ...]:
    """Return the calls in order, with identical ones grouped at the first of them."""
    found: dict[bytes, list[RequestedCall]] = {}
    for call in asked.calls:
        found.setdefault(_build_grouping_key(call), []).append(call)
    return tuple(
        CallGroup(number=number, ids=tuple(call.id for call in alike), call=alike[0])
        for number, alike in enumerate(found.values(), start=1)
    )


def _build_grouping_key(call: RequestedCall) -> bytes:
    return msgspec.json.encode({**msgspec.structs.asdict(call), "id": ""}, order="deterministic")


def _read_automatic(context: Mapping[str, Any]) -> tuple[AutomaticCall, ...]:
    where = f"context.{AUTOMATIC}"
    given = context.get(AUTOMATIC)
    if given is None:
        return ()
    automatic = convert_input(given, tuple[AutomaticCall, ...], ValidationFailed, where)
    if len(automatic) > MAX_AUTOMATIC_CALLS:
        raise ValidationFailed(
            f"{where} holds {len(automatic)} calls; send at most {MAX_AUTOMATIC_CALLS}.", path=where
        )
    return automatic


def _check_distinct(calls: list[AutomaticCall], where: str) -> None:
    seen: set[str] = set()
    for call in calls:
        if call.id in seen:
            raise ValidationFailed(
                f"{where}: the id {quote(call.id)!r} comes twice; every call needs its own.", path=where
            )
        seen.add(call.id)
