"""Grants on the page of tool calls: the fields that it offers, and how they are read.

The page proposes the call exactly as it is. An unchanged field matches exactly; stars in a text, or a larger
number, widen one argument.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from placet.cases.grant_terms import build_grant_field_name, is_grantable, read_terms
from placet.protocol.argument_patterns import as_glob
from placet.reviews.answer import build_field_error
from placet.reviews.tool_calls.requested_calls import CallGroup
from placet.reviews.tool_calls.schema import read_subschema
from placet.reviews.tool_calls.secrets import holds_secret
from placet.text.wording import message, plural_message

MAX_LINE_LENGTH = 200
MAX_ARGUMENTS = 20
USES, LASTS_FOR = "10", "1h"
SECRET = message("A call with a secret in it is decided each time; it cannot be granted.")
LENGTHS = ("15m", "1h", "8h", "1d", "7d")

Widening = Literal["text", "number", "same"]

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)


class PageGrants:
    """Grants as the page offers them and the desk stores them."""

    def build_boxes(self, group: CallGroup, typed: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the grant fields of a call with what was entered, or None if it cannot be granted."""
        if not _is_grantable_group(group):
            return None
        return {
            "field": build_grant_field_name(group.ids[0]),
            "number": group.number,
            "on": bool(typed.get("on")),
            "arguments": [
                _build_box(place, name, value, typed)
                for place, (name, value) in enumerate(group.call.arguments.items(), start=1)
            ],
            "uses": typed.get("uses", USES),
            "lasts_for": typed.get("for", LASTS_FOR),
            "lengths": LENGTHS,
        }

    def read(
        self, group: CallGroup, typed: Mapping[str, str], decision: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the requested grant of an approved call, or None. `check` validates it later."""
        runs = decision.get("decision") in ("approve", "edit")
        if not typed.get("on") or not runs or not _is_grantable_group(group):
            return None
        edited = decision.get("arguments")
        arguments = group.call.arguments if edited is None else edited
        places = {name: place for place, name in enumerate(group.call.arguments, start=1)}
        uses = typed.get("uses", "").strip()
        return {
            "call_id": group.ids[0],
            "patterns": {
                name: _build_pattern(
                    group.call.arguments.get(name), value, typed.get(f"like.{places.get(name)}")
                )
                for name, value in arguments.items()
            },
            "uses": int(uses) if _WHOLE.fullmatch(uses) else uses,
            "for": typed.get("for", ""),
        }

    def check(
        self, calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]], given: object
    ) -> list[dict[str, Any]]:
        """Return the grants as they will be stored; raise InvalidSubmission if one is not valid."""
        if given is None:
            return []
        granted = read_terms(given, calls, decisions)
        schemas = {call["id"]: call.get("schema") for call in calls}
        for terms in granted:
            values = {name: pattern.get("exact") for name, pattern in terms.patterns.items()}
            if holds_secret(values, read_subschema(schemas[terms.call_id])):
                raise build_field_error(build_grant_field_name(terms.call_id), SECRET)
        return [terms.to_dict() for terms in granted]

    def describe(self, call: str, grant: Mapping[str, Any]) -> tuple[str, Any]:
        """Return a title for the grant, and the pattern of each argument."""
        name = plural_message(
            "{call}: one more call like it allowed for {length}",
            "{call}: {count} more calls like it allowed for {length}",
            count=grant["uses"],
            call=call,
            length=grant["for"],
        )
        return name, {argument: _describe_pattern(pattern) for argument, pattern in grant["patterns"].items()}


def _describe_pattern(pattern: Mapping[str, Any]) -> Any:
    if "exact" in pattern:
        return pattern["exact"]
    return pattern["glob"] if "glob" in pattern else f"{pattern['from']} – {pattern['to']}"


def _is_grantable_group(group: CallGroup) -> bool:
    call = group.call
    return (
        len(call.arguments) <= MAX_ARGUMENTS
        and not holds_secret(call.arguments, read_subschema(call.schema))
        and is_grantable({"arguments": call.arguments, "high_risk": call.high_risk})
    )


def _choose_widening(value: Any) -> Widening:
    if isinstance(value, str):
        plain = value.isprintable() and value == value.strip()
        return "text" if plain and value and len(value) <= MAX_LINE_LENGTH else "same"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "same"


def _build_box(place: int, name: str, value: Any, typed: Mapping[str, str]) -> dict[str, Any]:
    widening = _choose_widening(value)
    return {
        "place": place,
        "name": name,
        "widening": widening,
        "value": value,
        "like": typed.get(f"like.{place}", _propose_text(value)) if widening != "same" else None,
        "least": min(0, value) if widening == "number" else None,
    }


def _propose_text(value: Any) -> str:
    return as_glob(value) if isinstance(value, str) else str(value)


def _build_pattern(asked: Any, decided: Any, like: str | None) -> dict[str, Any]:
    """Return an exact pattern for the decided value, unless the reviewer widened it."""
    widening = _choose_widening(asked)
    if like is None or widening == "same" or like.strip() == _propose_text(asked):
        return {"exact": decided}
    if widening == "text":
        return {"glob": like.strip()}
    return {"from": min(type(asked)(0), asked), "to": _parse_number(like.strip(), type(asked))}


def _parse_number(like: str, kind: type[int] | type[float]) -> Any:
    fits = (_WHOLE if kind is int else _DECIMAL).fullmatch(like)
    return kind(like) if fits else like
