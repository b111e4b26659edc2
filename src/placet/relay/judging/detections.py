"""What policies found, as events of the audit: who matched and who was not reached, never what was found."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placet.ports.audit_store import AuditRow
from placet.relay.audit.event import transport_of
from placet.relay.audit.trail import Trail
from placet.relay.judging.inspection import Exchange
from placet.relay.policies.book import Applied
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.finding import Finding, untold, without_texts
from placet.relay.policies.policy import Action, Leg

MOST_COMPARED = 1_000
MOST_POLICIES = 200
"""So many policies of each kind are named in one event."""
MOST_FINDINGS = 100
"""So many findings stand in one event, one by one; how many there are is told of all."""


def detections(trail: Trail, leg: Leg, exchange: Exchange, found: Evaluation) -> list[AuditRow]:
    """One event for each detector whose policies found something, or could not look."""
    kinds = dict.fromkeys(
        one.policy.policy_type for one in (*found.matched, *(one.applied for one in found.unchecked))
    )
    return [_event(kind, trail, leg, exchange, found) for kind in kinds]


def event_type(kind: str) -> str:
    """What the audit calls events of a detector: plug-ins have a type of their own."""
    word = kind.upper().replace("-", "_").replace(".", "_")
    return word if word.endswith("_DETECTION") else f"{word}_DETECTION"


def _event(kind: str, trail: Trail, leg: Leg, exchange: Exchange, found: Evaluation) -> AuditRow:
    matched = [one for one in found.matched if one.policy.policy_type == kind]
    unchecked = [one for one in found.unchecked if one.applied.policy.policy_type == kind]
    findings = [one for one in found.findings if one.detector == kind]
    about = exchange.reply or exchange.call
    metadata: dict[str, Any] = {
        "leg": leg,
        "outcome": found.outcome,
        "decidedBy": _policy(found.decided_by) if found.decided_by else None,
        "matched": [_policy(one) for one in matched[:MOST_POLICIES]],
        "unchecked": [{**_policy(one.applied), "reason": one.reason} for one in unchecked[:MOST_POLICIES]],
        "notReached": [_policy(one) for one in found.not_reached[:MOST_POLICIES]],
        "matches": len(findings),
        "findings": msgspec.to_builtins(_told(found, findings[:MOST_FINDINGS])),
    }
    if found.opaque:
        metadata["notLookedAt"] = list(found.opaque)
    return trail.row(
        event_type(kind),
        exchange.subscription,
        correlation_id=exchange.correlation_id,
        action=_action(matched, failed=bool(unchecked)),
        transport=transport_of(exchange.call.dialect),
        message=_words(matched, failed=bool(unchecked)),
        task_id=untold(about.task_id, found.findings) or exchange.task_id,
        context_id=untold(about.context_id, found.findings),
        message_id=untold(about.message_id, found.findings),
        metadata=metadata,
    )


def _told(found: Evaluation, shown: Sequence[Finding]) -> list[Finding]:
    """What may be told of some findings, given all of them: one may stand in the path of another."""
    count = len(shown)
    return without_texts([*shown, *found.findings[:MOST_COMPARED]])[:count]


def _action(matched: Iterable[Applied], *, failed: bool) -> str:
    actions = [one.policy.action for one in matched]
    if failed and Action.BLOCK not in actions:
        return "ERROR"
    return max(actions, key=lambda action: action.strictness).value


def _words(matched: list[Applied], *, failed: bool) -> str:
    names = ", ".join(one.policy.name for one in matched[:5])
    told = [f"{names} found something" if matched else "", "a policy could not be checked" if failed else ""]
    return "; ".join(one for one in told if one) + "."


def _policy(applied: Applied) -> dict[str, Any]:
    policy = applied.policy
    return {
        "policyId": policy.policy_id,
        "policyName": policy.name,
        "policyVersion": policy.version,
        "policyLevel": applied.level,
        "action": policy.action,
    }
