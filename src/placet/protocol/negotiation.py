"""Appendix F: what a review means in ADL (Agent Deal Language) and WDL (Work Deal Language)."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.conversion import convert_input

Urgency = Literal["low", "medium", "high"]
AdlResponse = Literal["ACCEPT", "DENY", "COUNTER", "CLARIFY"]
HITL = "hitl"
ESCALATION = "human_escalation"

ADL_RESPONSES: Mapping[str, AdlResponse] = {
    "approve": "ACCEPT",
    "reject": "DENY",
    "edit": "COUNTER",
    "submit": "COUNTER",
}
"""F.1: the response to a deal by the action of the review."""

ADL_STATES: Mapping[str, str] = {
    "pending": "PROPOSED",
    "opened": "NEGOTIATING",
    "in_progress": "NEGOTIATING",
    "expired": "EXPIRED",
    "cancelled": "DECLINED",
}
ADL_STATES_AFTER: Mapping[str, str] = {
    "ACCEPT": "AGREED",
    "DENY": "DECLINED",
    "COUNTER": "NEGOTIATING",
    "CLARIFY": "NEGOTIATING",
}
"""F.3 for a completed review: agreed, or the next round. A refusal never agrees."""

WDL_STATES: Mapping[str, str] = {
    "pending": "UNCERTAINTY",
    "opened": "POTENTIAL",
    "in_progress": "GAP",
    "expired": "CONFLICT",
    "cancelled": "CONFLICT",
}
WDL_MATCHES = frozenset({"approve", "confirm", "edit", "select", "submit"})
"""The actions after which a completed review is a match; any other is a conflict."""


class DealUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a review says to a deal."""

    state: str
    response: AdlResponse | None = None
    data: dict[str, Any] | None = None


class _Result(Struct):
    action: str
    data: dict[str, Any] | None = None


class _Poll(Struct):
    status: Literal["pending", "opened", "in_progress", "completed", "expired", "cancelled"]
    result: _Result | None = None


class _ReviewConfig(Struct, forbid_unknown_fields=True):
    review_type: str
    timeout: str | None = None


class _Tokens(Struct):
    bridge_type: Literal["human_escalation"]
    external_review_protocol: Literal["hitl"]
    hitl_config: _ReviewConfig
    escalation_urgency: Urgency | None = None


class _Requirement(Struct):
    category: str
    key: str
    kind: str
    tokens: _Tokens


def deal_update_from_poll(poll: Mapping[str, Any], *, clarifies: bool = False) -> DealUpdate:
    """Return the state of an ADL deal, and the response to it once the review is completed.

    `clarifies` says that the person was asked for missing information, so that a submitted form answers a
    CLARIFY instead of countering. Raises ValidationFailed for an action that has no response in ADL.
    """
    read = _read_poll(poll)
    if read.status != "completed":
        return DealUpdate(state=ADL_STATES[read.status])
    result = _require_result(read)
    response = "CLARIFY" if clarifies and result.action == "submit" else ADL_RESPONSES.get(result.action)
    if response is None:
        raise ValidationFailed(
            f"action: {result.action[:64]!r} has no response in ADL. Ask with a review whose actions are"
            f" {', '.join(ADL_RESPONSES)}."
        )
    return DealUpdate(state=ADL_STATES_AFTER[response], response=response, data=result.data or {})


def work_state_from_poll(poll: Mapping[str, Any]) -> str:
    """Return the contextual state of a WDL requirement."""
    read = _read_poll(poll)
    if read.status != "completed":
        return WDL_STATES[read.status]
    return "MATCH" if _require_result(read).action in WDL_MATCHES else "CONFLICT"


def add_review_to_term(
    term: Mapping[str, Any], hitl: Mapping[str, Any], *, urgency: Urgency = "medium"
) -> dict[str, Any]:
    """Return an ADL term whose bridge leads to the review."""
    bridge = {
        "bridge_type": ESCALATION,
        "escalation_urgency": urgency,
        "hitl_review_url": _require_text(hitl, "review_url"),
        "hitl_poll_url": _require_text(hitl, "poll_url"),
    }
    return {**term, "bridge": {**_read_bridge(term), **bridge}}


def draft_from_requirement(requirement: Mapping[str, Any], *, prompt: str | None = None) -> dict[str, Any]:
    """Return the body of POST /v1/cases for a WDL requirement that a person has to settle."""
    read = convert_input(dict(requirement), _Requirement, ValidationFailed, "requirement")
    config = read.tokens.hitl_config
    draft: dict[str, Any] = {
        "type": config.review_type,
        "prompt": prompt or f"Does the candidate meet the requirement {read.key}?",
        "context": {"requirement": {"category": read.category, "key": read.key, "kind": read.kind}},
    }
    return draft if config.timeout is None else {**draft, "timeout": config.timeout}


def _read_poll(poll: Mapping[str, Any]) -> _Poll:
    return convert_input(dict(poll), _Poll, ValidationFailed, "poll response")


def _require_result(poll: _Poll) -> _Result:
    if poll.result is None:
        raise ValidationFailed("result: a completed review has one.")
    return poll.result


def _require_text(hitl: Mapping[str, Any], name: str) -> str:
    value = hitl.get(name)
    if not isinstance(value, str) or not value:
        raise ValidationFailed(f"hitl.{name}: is missing.")
    return value


def _read_bridge(term: Mapping[str, Any]) -> dict[str, Any]:
    bridge = term.get("bridge", {})
    if not isinstance(bridge, dict):
        raise ValidationFailed("bridge: must be an object.")
    return bridge
