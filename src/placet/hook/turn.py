"""One turn of calls, judged: which wait for a person, and which wait with them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from placet.hook.checkpoint import GrantedCalls
from placet.hook.feedback import ToolFeedback, Verdict
from placet.hook.interruption import InterruptionMetadata, new_interruption
from placet.hook.policy import Hook, ReviewRequirement, State
from placet.hook.result_texts import apply_verdict
from placet.hook.tool_call import ToolCall
from placet.protocol.json_schema import validator

Schemas = Mapping[str, Mapping[str, Any] | None]
"""Tool -> its JSON Schema."""


def evaluate_calls(
    hooks: Iterable[Hook], calls: Iterable[ToolCall], state: State, schemas: Schemas | None = None
) -> dict[str, ReviewRequirement]:
    """The calls that a person must see: call -> how they are asked. Each is judged here, once.

    `schemas` are given where nobody has seen yet whether the calls fit their tools.
    """
    hooks, known = tuple(hooks), schemas or {}
    gates = {call.id: evaluate_call(hooks, call, state, known.get(call.name)) for call in calls}
    return {call_id: gate for call_id, gate in gates.items() if gate is not None}


def evaluate_call(
    hooks: Sequence[Hook], call: ToolCall, state: State, schema: Mapping[str, Any] | None = None
) -> ReviewRequirement | None:
    """How the person is asked about this call, or None if nobody needs to be.

    Frameworks make of arguments what their tool takes: of "true" a true, which no condition has seen.
    """
    if (gate := _first_requirement(hooks, call, state)) is not None:
        return gate
    doubts = (hook.in_doubt(call, state) for hook in hooks if hasattr(hook, "in_doubt"))
    doubt = next((gate for gate in doubts if gate is not None), None)
    return None if doubt is None or _matches_schema(schema, call) else doubt


def _matches_schema(schema: Mapping[str, Any] | None, call: ToolCall) -> bool:
    """Whether the tool gets what was sent; that something was not sent, a condition sees itself."""
    try:
        problems = () if schema is None else validator(schema).iter_errors(call.arguments)
        return all(problem.schema_path[-1:] == ["required"] for problem in problems)
    except ValueError:  # also a schema that cannot be checked
        return False


def interrupt_turn(
    gates: Mapping[str, ReviewRequirement],
    calls: Sequence[ToolCall],
    *,
    thread_id: str,
    turn: int,
    state: State,
    schemas: Schemas,
    now: datetime,
    covered: Collection[str] = (),
) -> InterruptionMetadata | None:
    """The judgement of a turn as it will stand, whatever changes later; None if nobody needs to see any.

    Nobody needs to see the calls that a grant has `covered`.
    """
    if covered:
        gates = {call_id: gate for call_id, gate in gates.items() if call_id not in covered}
    if not gates:
        return None
    waits = [gate.config.patience for gate in gates.values()]
    shortest = min((wait for wait in waits if wait is not None), default=None)
    holds = any(gate.config.default == "hold" for gate in gates.values())
    return new_interruption(
        thread_id=thread_id,
        turn=turn,
        feedbacks=[_build_feedback(call, gates[call.id], schemas) for call in calls if call.id in gates],
        automatic=[call for call in calls if call.id not in gates],
        now=now,
        state=state,
        expires_at=None if shortest is None else now + shortest,
        default="hold" if holds else "reject",
    )


def record_granted_calls(
    gates: Mapping[str, ReviewRequirement],
    calls: Sequence[ToolCall],
    covered: Mapping[str, str],
    schemas: Schemas,
) -> dict[str, dict[str, Any]]:
    """The calls that grants cover, as a person is asked about them if their grant ends while they wait."""
    return {
        call.id: {"grant": covered[call.id], "call": _build_feedback(call, gates[call.id], schemas).to_dict()}
        for call in calls
        if call.id in covered
    }


def reinterrupt_lapsed(
    interruption: InterruptionMetadata, granted: GrantedCalls, holding: Collection[str], *, now: datetime
) -> tuple[InterruptionMetadata, GrantedCalls]:
    """Calls whose grant no longer holds wait for a person after all, in a new interruption; the rest stays.

    Returns what is still granted beside it. People have as long as they had for the first one.
    """
    lapsed = {call_id: kept["call"] for call_id, kept in granted.items() if call_id not in holding}
    if not lapsed:
        return interruption, granted
    began, ends = interruption.created_at, interruption.expires_at
    anew = new_interruption(
        thread_id=interruption.thread_id,
        turn=interruption.turn,
        feedbacks=[*interruption.tool_feedbacks, *map(ToolFeedback.from_dict, lapsed.values())],
        automatic=[call for call in interruption.tools_automatically_approved if call.id not in lapsed],
        now=now,
        state=interruption.state,
        expires_at=None if ends is None else now + (ends - began),
        default=interruption.default,
    )
    return anew, {call_id: kept for call_id, kept in granted.items() if call_id not in lapsed}


def reinterrupt_edits(
    hooks: Iterable[Hook],
    interruption: InterruptionMetadata,
    verdicts: Mapping[str, Verdict],
    *,
    schemas: Schemas,
    now: datetime,
) -> tuple[InterruptionMetadata, Mapping[str, Verdict]]:
    """An edit into another tool that is gated itself waits again, in a new interruption; the rest stays."""
    hooks = tuple(hooks)
    again: dict[str, ToolFeedback] = {}
    for waiting in interruption.tool_feedbacks:
        verdict = verdicts.get(waiting.id)
        # An agent inside judges the edits of its own calls.
        if verdict is None or waiting.path or verdict.name in (None, waiting.name):
            continue
        call = apply_verdict(waiting.call, verdict)
        if (gate := _first_requirement(hooks, call, interruption.state)) is not None:
            again[waiting.id] = _build_feedback(call, gate, schemas)
    if not again:
        return interruption, verdicts
    anew = new_interruption(
        thread_id=interruption.thread_id,
        turn=interruption.turn,
        feedbacks=[again.get(waiting.id, waiting) for waiting in interruption.tool_feedbacks],
        automatic=interruption.tools_automatically_approved,
        now=now,
        state=interruption.state,
        expires_at=interruption.expires_at,
        default=interruption.default,
    )
    return anew, {call_id: verdict for call_id, verdict in verdicts.items() if call_id not in again}


def _first_requirement(hooks: Iterable[Hook], call: ToolCall, state: State) -> ReviewRequirement | None:
    for hook in hooks:
        if (gate := hook.judge(call, state)) is not None:
            return gate
    return None


def _build_feedback(call: ToolCall, gate: ReviewRequirement, schemas: Schemas) -> ToolFeedback:
    return ToolFeedback.of(
        call,
        description=gate.description,
        allowed_decisions=gate.config.decisions,
        schema=schemas.get(call.name),
        high_risk=gate.config.high_risk,
    )
