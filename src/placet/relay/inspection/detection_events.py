"""Build audit events for what policies found, without the text that matched."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.ports.audit_store import AuditRow
from placet.relay.audit.audit_event import get_transport
from placet.relay.audit.audit_log import AuditLog
from placet.relay.inspection.message_inspector import InspectionRequest
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.finding import Finding, omit_sensitive_id, redact_findings
from placet.relay.policies.policy import Leg, PolicyAction
from placet.relay.policies.policy_set import AppliedPolicy

MAX_COMPARED = 1_000
MAX_POLICIES = 200
"""So many policies of each kind are named in one event."""
MAX_FINDINGS = 100
"""So many findings stand in one event, one by one; how many there are is told of all."""


def build_detection_events(
    trail: AuditLog, leg: Leg, request: InspectionRequest, found: Evaluation
) -> list[AuditRow]:
    """One event for each detector whose policies found something, or could not look."""
    kinds = dict.fromkeys(
        one.policy.policy_type for one in (*found.matched, *(one.applied for one in found.unchecked))
    )
    return [_build_event(kind, trail, leg, request, found) for kind in kinds]


def get_event_type(kind: str) -> str:
    """What the audit calls events of a detector: plug-ins have a type of their own."""
    word = kind.upper().replace("-", "_").replace(".", "_")
    return word if word.endswith("_DETECTION") else f"{word}_DETECTION"


def _build_event(
    kind: str, trail: AuditLog, leg: Leg, request: InspectionRequest, found: Evaluation
) -> AuditRow:
    matched = [one for one in found.matched if one.policy.policy_type == kind]
    unchecked = [one for one in found.unchecked if one.applied.policy.policy_type == kind]
    findings = [one for one in found.findings if one.detector == kind]
    about = request.reply or request.call
    metadata: dict[str, Any] = {
        "leg": leg,
        "outcome": found.outcome,
        "decidedBy": _describe_policy(found.decided_by) if found.decided_by else None,
        "matched": [_describe_policy(one) for one in matched[:MAX_POLICIES]],
        "unchecked": [
            {**_describe_policy(one.applied), "reason": one.reason} for one in unchecked[:MAX_POLICIES]
        ],
        "notReached": [_describe_policy(one) for one in found.not_reached[:MAX_POLICIES]],
        "matches": len(findings),
        "findings": msgspec.to_builtins(_redact_shown(found, findings[:MAX_FINDINGS])),
    }
    if found.opaque:
        metadata["notLookedAt"] = list(found.opaque)
    return trail.row(
        get_event_type(kind),
        request.subscription,
        correlation_id=request.correlation_id,
        action=_choose_action(matched, failed=bool(unchecked)),
        transport=get_transport(request.call.dialect),
        message=_describe(matched, failed=bool(unchecked)),
        task_id=omit_sensitive_id(about.task_id, found.findings) or request.task_id,
        context_id=omit_sensitive_id(about.context_id, found.findings),
        message_id=omit_sensitive_id(about.message_id, found.findings),
        metadata=metadata,
    )


def _redact_shown(found: Evaluation, shown: Sequence[Finding]) -> list[Finding]:
    """What may be told of some findings, given all of them: one may stand in the path of another."""
    count = len(shown)
    return redact_findings([*shown, *found.findings[:MAX_COMPARED]])[:count]


def _choose_action(matched: Iterable[AppliedPolicy], *, failed: bool) -> str:
    actions = [one.policy.action for one in matched]
    if failed and PolicyAction.BLOCK not in actions:
        return "ERROR"
    return max(actions, key=lambda action: action.strictness).value


def _describe(matched: list[AppliedPolicy], *, failed: bool) -> str:
    names = ", ".join(one.policy.name for one in matched[:5])
    told = [f"{names} found something" if matched else "", "a policy could not be checked" if failed else ""]
    return "; ".join(one for one in told if one) + "."


def _describe_policy(applied: AppliedPolicy) -> dict[str, Any]:
    policy = applied.policy
    return {
        "policyId": policy.policy_id,
        "policyName": policy.name,
        "policyVersion": policy.version,
        "policyLevel": applied.level,
        "action": policy.action,
    }
