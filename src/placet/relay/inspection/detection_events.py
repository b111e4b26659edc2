"""Build audit events for the findings of policies, without the text that matched."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.ports.audit_store import AuditRow
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.reply import A2AReply
from placet.relay.audit.audit_event import get_transport
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import Exchange
from placet.relay.policy.evaluation import Evaluation
from placet.relay.policy.finding import Finding, omit_sensitive_id, redact_findings
from placet.relay.policy.policy import Leg, PolicyAction
from placet.relay.policy.policy_set import AppliedPolicy

MAX_COMPARED = 1_000
OBSERVED = " The stream was only observed."
MAX_POLICIES = 200
"""The maximum number of matched, unchecked and unreached policies in one event."""
MAX_FINDINGS = 100
"""The maximum number of findings in one event. `matches` counts all of them."""


def build_detection_events(
    audit_log: AuditLog,
    leg: Leg,
    exchange: Exchange,
    message: A2ACall | A2AReply,
    evaluation: Evaluation,
    *,
    is_observed: bool = False,
) -> list[AuditRow]:
    """Return one event for each detector with a policy that matched or could not be checked.

    `is_observed` is True for a stream that the caller has got whatever the policies say.
    """
    policies = (*evaluation.matched, *(unchecked.applied for unchecked in evaluation.unchecked))
    detector_types = dict.fromkeys(applied.policy.policy_type for applied in policies)
    return [
        _build_event(detector_type, audit_log, leg, exchange, message, evaluation, is_observed=is_observed)
        for detector_type in detector_types
    ]


def get_event_type(detector_type: str) -> str:
    """Return the audit event type of a detector. Each plug-in has its own type."""
    name = detector_type.upper().replace("-", "_").replace(".", "_")
    return name if name.endswith("_DETECTION") else f"{name}_DETECTION"


def _build_event(
    detector_type: str,
    audit_log: AuditLog,
    leg: Leg,
    exchange: Exchange,
    message: A2ACall | A2AReply,
    evaluation: Evaluation,
    *,
    is_observed: bool,
) -> AuditRow:
    matched = [applied for applied in evaluation.matched if applied.policy.policy_type == detector_type]
    unchecked = [
        policy for policy in evaluation.unchecked if policy.applied.policy.policy_type == detector_type
    ]
    findings = [finding for finding in evaluation.findings if finding.detector == detector_type]
    metadata: dict[str, Any] = {
        "leg": leg,
        "outcome": evaluation.outcome,
        "decidedBy": _describe_policy(evaluation.decided_by) if evaluation.decided_by else None,
        "matched": [_describe_policy(applied) for applied in matched[:MAX_POLICIES]],
        "unchecked": [
            {**_describe_policy(policy.applied), "reason": policy.reason}
            for policy in unchecked[:MAX_POLICIES]
        ],
        "notReached": [_describe_policy(applied) for applied in evaluation.not_reached[:MAX_POLICIES]],
        "matches": len(findings),
        "findings": msgspec.to_builtins(_redact_listed(evaluation, findings[:MAX_FINDINGS])),
    }
    if evaluation.unreadable_paths:
        metadata["unreadablePaths"] = list(evaluation.unreadable_paths)
    if is_observed:
        metadata["streaming"] = "observe"
    if exchange.state.released_events:
        metadata["releasedEvents"] = exchange.state.released_events
    action = _choose_action(matched, failed=bool(unchecked))
    return audit_log.build_event(
        get_event_type(detector_type),
        exchange.subscription,
        correlation_id=exchange.correlation_id,
        action="WARN" if is_observed and action not in ("LOG", "ERROR") else action,
        transport=get_transport(exchange.call.dialect),
        message=_describe(matched, failed=bool(unchecked)) + (OBSERVED if is_observed else ""),
        task_id=omit_sensitive_id(message.task_id, evaluation.findings) or exchange.state.task_id,
        context_id=omit_sensitive_id(message.context_id, evaluation.findings),
        message_id=omit_sensitive_id(message.message_id, evaluation.findings),
        metadata=metadata,
    )


def _redact_listed(evaluation: Evaluation, listed: Sequence[Finding]) -> list[Finding]:
    """Return the listed findings, redacted against all findings: one may be in the path of another."""
    return redact_findings([*listed, *evaluation.findings[:MAX_COMPARED]])[: len(listed)]


def _choose_action(matched: Iterable[AppliedPolicy], *, failed: bool) -> str:
    actions = [applied.policy.action for applied in matched]
    if failed and PolicyAction.BLOCK not in actions:
        return "ERROR"
    return max(actions, key=lambda action: action.strictness).value


def _describe(matched: list[AppliedPolicy], *, failed: bool) -> str:
    names = ", ".join(applied.policy.name for applied in matched[:5])
    sentences = [f"Matched: {names}." if matched else "", "A policy could not be checked." if failed else ""]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_policy(applied: AppliedPolicy) -> dict[str, Any]:
    policy = applied.policy
    return {
        "policyId": policy.policy_id,
        "policyName": policy.name,
        "policyVersion": policy.version,
        "policyLevel": applied.level,
        "action": policy.action,
    }
