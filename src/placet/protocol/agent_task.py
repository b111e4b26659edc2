"""Section 14.1: a review as an A2A task that requires input, and back."""

from collections.abc import Mapping
from typing import Any

from placet.errors import ValidationFailed

INPUT_REQUIRED = "input-required"
HITL = "hitl"

TASK_STATES: Mapping[str, str] = {
    "pending": INPUT_REQUIRED,
    "opened": INPUT_REQUIRED,
    "in_progress": INPUT_REQUIRED,
    "completed": "working",
    "expired": "failed",
    "cancelled": "canceled",
}
"""The state of the task by the status of the review. A decision is not the end of the work."""
_REQUIRES_INPUT = frozenset({INPUT_REQUIRED, "TASK_STATE_INPUT_REQUIRED"})


def build_input_required_task(body: Mapping[str, Any], *, task_id: str, context_id: str) -> dict[str, Any]:
    """Return an A2A task that waits for the review of this 202 body.

    The `hitl` object is in the task's metadata, where A2A keeps what it does not define. Its message is for
    clients that know only A2A: it says what is asked, and where.
    """
    hitl = body.get(HITL)
    if not isinstance(hitl, dict) or not isinstance(hitl.get("review_url"), str):
        raise ValidationFailed("hitl: the body has no hitl object with a review_url.")
    asked = body.get("message") or hitl.get("prompt") or "A person has to decide."
    message = {
        "kind": "message",
        "messageId": f"{task_id}-{hitl.get('case_id', 'review')}",
        "role": "agent",
        "taskId": task_id,
        "contextId": context_id,
        "parts": [{"kind": "text", "text": f"{asked}\n\n{hitl['review_url']}"}],
    }
    return {
        "kind": "task",
        "id": task_id,
        "contextId": context_id,
        "status": {"state": INPUT_REQUIRED, "message": message},
        "metadata": {HITL: hitl},
    }


def read_hitl_of_task(task: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the `hitl` object of a task that requires input; None if it has none or requires none.

    It is in the metadata of the task or, as the specification's example writes it, beside its state.
    """
    status = task.get("status")
    state = status.get("state") if isinstance(status, Mapping) else task.get("state")
    metadata = task.get("metadata")
    found = metadata.get(HITL) if isinstance(metadata, Mapping) else None
    hitl = task.get(HITL) if found is None else found
    return dict(hitl) if state in _REQUIRES_INPUT and isinstance(hitl, Mapping) else None


def task_state_from_poll(poll: Mapping[str, Any]) -> str:
    """Return the state of the task for a poll response."""
    status = poll.get("status")
    if not isinstance(status, str) or status not in TASK_STATES:
        raise ValidationFailed(f"status: must be one of {', '.join(TASK_STATES)}.")
    return TASK_STATES[status]
