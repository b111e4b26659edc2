"""Build the request body that creates a case from the arguments of a tool."""

from datetime import datetime
from inspect import Parameter, signature
from typing import Any

from placet.mcp import arguments as say
from placet.protocol.duration import parse_duration
from placet.reviews.tool_arguments import NO_FACTS, NONE, drop_empty


def build_draft(
    review_type: str,
    prompt: str,
    context: dict[str, Any],
    *,
    agent: str | None,
    now: datetime,
    facts: say.Facts = NO_FACTS,
    timeout: say.TimeoutArgument = "",
    default_action: say.DefaultActionArgument = "",
    remind_after: say.RemindAfter = NONE,
    verification: say.Verification = None,
    previous_case_id: say.Previous = "",
) -> dict[str, Any]:
    """Return the body that creates a case, without empty fields.

    Every parameter with a default is an argument of every tool that asks a question.
    """
    fields: dict[str, Any] = {
        "type": review_type,
        "prompt": prompt,
        "context": {**facts, **drop_empty(context)},
        "timeout": timeout,
        "default_action": default_action,
        "reminder_at": _compute_reminder_times(remind_after, now),
        "verification_policy": _build_verification_policy(verification) if verification is not None else None,
        "previous_case_id": previous_case_id,
        "agent": agent,
    }
    return drop_empty(fields)


SHARED = tuple(
    one for one in signature(build_draft).parameters.values() if one.default is not Parameter.empty
)


def _build_verification_policy(proof: say.Proof) -> dict[str, Any]:
    """Return the policy; without a valid proof, the person answers on the review page."""
    requirement = {
        "proof_type": proof.proof_type,
        "provider": proof.provider,
        "min_assurance": proof.min_assurance,
    }
    return {
        "mode": "required",
        "required_for": list(dict.fromkeys(proof.required_for)),
        "requirements": {"any_of": [{"all_of": [drop_empty(requirement)]}]},
        "binding": {
            "case_id": True,
            "action": True,
            "freshness_seconds": proof.freshness_seconds,
            "single_use": True,
        },
        "fallback": {"on_missing": "browser_review", "on_invalid": "browser_review"},
    }


def _compute_reminder_times(remind_after: list[str], now: datetime) -> list[str]:
    return [(now + parse_duration(one, "remind_after")).isoformat() for one in remind_after]
