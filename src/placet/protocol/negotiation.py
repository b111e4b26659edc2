"""How cases read in neighbouring protocols: ADL and WDL deals (spec Appendix F) and A2A tasks (spec 14.1)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, get_args

from placet.errors import ValidationFailed
from placet.protocol.duration import format_iso_duration
from placet.protocol.shape import quote

Urgency = Literal["low", "medium", "high"]

ADL_RESPONSES: Mapping[str, str] = {
    "approve": "ACCEPT",
    "reject": "DENY",
    "edit": "COUNTER",
    "submit": "COUNTER",
}
ADL_STATES: Mapping[str, str] = {
    "pending": "PROPOSED",
    "opened": "NEGOTIATING",
    "in_progress": "NEGOTIATING",
    "completed": "AGREED",
    "expired": "EXPIRED",
    "cancelled": "DECLINED",
}
WDL_STATES: Mapping[str, str] = {
    "pending": "UNCERTAINTY",
    "opened": "POTENTIAL",
    "in_progress": "GAP",
    "completed": "MATCH",
    "expired": "CONFLICT",
    "cancelled": "CONFLICT",
}
# A completed case is a decision, not yet its execution, so the task goes on working.
A2A_STATES: Mapping[str, str] = {
    "pending": "input-required",
    "opened": "input-required",
    "in_progress": "input-required",
    "completed": "working",
    "expired": "canceled",
    "cancelled": "canceled",
}
# A task that ended without the person takes its open case with it; it never completes one.
HITL_STATUSES: Mapping[str, str] = {
    "input-required": "pending",
    "completed": "cancelled",
    "canceled": "cancelled",
    "failed": "cancelled",
    "rejected": "cancelled",
}

_NEXT_ROUND = "NEGOTIATING"
_BRIDGE = "human_escalation"
_A2A_SILENT = frozenset({"submitted", "working", "auth-required", "unknown", "unspecified"})


def adl_response(action: str, *, clarifying: bool = False) -> str:
    """The ADL response that a person's action amounts to; `clarifying` when ADL had asked for information.

    Raises `ValidationFailed` for an action that ADL has no word for.
    """
    if clarifying and action == "submit":
        return "CLARIFY"
    return _look_up(ADL_RESPONSES, action, "action")


def adl_state(status: str, action: str | None = None) -> str:
    """The ADL deal state of a case; a completed one agrees only if the action was `approve`.

    Raises `ValidationFailed` for an unknown status.
    """
    if status == "completed" and action != "approve":
        return _NEXT_ROUND
    return _look_up(ADL_STATES, status, "status")


def adl_bridge(review_url: str, poll_url: str, urgency: Urgency) -> dict[str, str]:
    """The `bridge` of an ADL term that waits for a person."""
    return {
        "bridge_type": _BRIDGE,
        "escalation_urgency": _check_urgency(urgency),
        "hitl_review_url": review_url,
        "hitl_poll_url": poll_url,
    }


def wdl_state(status: str) -> str:
    """The WDL contextual state of a case; raises `ValidationFailed` for an unknown status."""
    return _look_up(WDL_STATES, status, "status")


def wdl_bridge(review_type: str, timeout_for: timedelta, urgency: Urgency) -> dict[str, Any]:
    """The `tokens` of a WDL entry that waits for a person."""
    return {
        "bridge_type": _BRIDGE,
        "escalation_urgency": _check_urgency(urgency),
        "external_review_protocol": "hitl",
        "hitl_config": {"review_type": review_type, "timeout": format_iso_duration(timeout_for)},
    }


def a2a_input_required(task_id: str, hitl: Mapping[str, Any]) -> dict[str, Any]:
    """The A2A task that tells the calling agent to bring `hitl` to a person.

    Raises `ValidationFailed` when there is no task or nothing for the person to open.
    """
    if not task_id:
        raise ValidationFailed("An A2A task needs its id.", path="task_id")
    if not hitl.get("review_url"):
        raise ValidationFailed("The hitl object needs a review_url.", path="hitl.review_url")
    return {"task_id": task_id, "state": "input-required", "hitl": dict(hitl)}


def a2a_state(status: str) -> str:
    """The A2A task state while a case has this status; raises `ValidationFailed` for an unknown status."""
    return _look_up(A2A_STATES, status, "status")


def hitl_status(state: str) -> str | None:
    """The status a case about an A2A task should have, or None when the task's state says nothing about it.

    Reads the old (`input-required`) and the new (`TASK_STATE_INPUT_REQUIRED`) spelling.
    Raises `ValidationFailed` for an unknown state.
    """
    plain = state.lower().removeprefix("task_state_").replace("_", "-").replace("cancelled", "canceled")
    return None if plain in _A2A_SILENT else _look_up(HITL_STATUSES, plain, "A2A state")


def _look_up(table: Mapping[str, str], key: str, name: str) -> str:
    if key not in table:
        raise ValidationFailed(f"No mapping for the {name} {quote(key)!r}; known are {', '.join(table)}.")
    return table[key]


def _check_urgency(urgency: str) -> str:
    if urgency not in get_args(Urgency):
        raise ValidationFailed("escalation_urgency must be low, medium or high.", path="escalation_urgency")
    return urgency
