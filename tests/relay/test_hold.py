"""The life of a hold, against expectations written down by hand and in every order of up to five commands."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from placet.errors import RelayConflict
from placet.ports.hold_store import HoldRow, HoldStatus
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.hold import (
    HOLD_COMMANDS,
    MAX_SENDS,
    TRANSITIONS,
    ApproveHold,
    BeginSending,
    FailHold,
    FinishHold,
    Hold,
    HoldBody,
    HoldCommand,
    HoldStage,
    MessageFrame,
    NoteDelivery,
    RefuseHold,
    Resolution,
    ResolutionAction,
    UndoSending,
    apply,
    hold_from_row,
)
from placet.relay.policy.policy import Leg

NOW = datetime(2026, 11, 19, tzinfo=UTC)

EXPECTED = """
                 waiting   approved  sending   delivered  refused   done  failed
    ApproveHold  approved  -         -         -          -         -     -
    RefuseHold   refused   -         -         -          -         -     -
    BeginSending 409       sending   sending   409        409       409   409
    UndoSending  409       -         approved  -          409       -     -
    NoteDelivery 409       409       delivered -          409       -     -
    FinishHold   409       done      done      done       done      -     -
    FailHold     failed    failed    failed    failed     failed    -     -
"""


def resolution(action: ResolutionAction) -> Resolution:
    return Resolution(id="r", action=action, created_at=NOW)


COMMANDS: list[HoldCommand] = [
    ApproveHold(resolution=resolution("APPROVED")),
    RefuseHold(resolution=resolution("REJECTED")),
    BeginSending(),
    UndoSending(),
    NoteDelivery(agent_task_id="agents"),
    FinishHold(at=NOW),
    FailHold(at=NOW, message="It cannot be sent."),
]
APPROVE, REFUSE, BEGIN, UNDO, NOTE, FINISH, FAIL = COMMANDS
PATHS: dict[HoldStage, list[HoldCommand]] = {
    HoldStage.WAITING: [],
    HoldStage.APPROVED: [APPROVE],
    HoldStage.SENDING: [APPROVE, BEGIN],
    HoldStage.DELIVERED: [APPROVE, BEGIN, NOTE],
    HoldStage.REFUSED: [REFUSE],
    HoldStage.DONE: [APPROVE, FINISH],
    HoldStage.FAILED: [APPROVE, FAIL],
}


def new_hold(status: HoldStatus = "PENDING", **fields: Any) -> Hold:
    frame = MessageFrame(
        matter="request",
        leg=Leg.REQUEST_FROM_SOURCE,
        dialect=Dialect("JSONRPC", "1.0"),
        operation="send",
    )
    body = HoldBody(
        frame=frame,
        digest="d",
        source_kind="agent",
        reason={},
        role="user",
        text="a tulip",
        summary="A message is held.",
        context_id="c",
        **fields,
    )
    row = HoldRow(
        id="hold-1",
        tenant="default",
        case_id="case-1",
        status=status,
        rev=1,
        detection_source="POLICY_ESCALATION",
        source="ann",
        sink="errands",
        task_id="one",
        policy_name="Flowers",
        correlation_id="c-1",
        created_at=NOW,
        body=msgspec.json.encode(body),
        envelope=b"{}",
    )
    return hold_from_row(row)


def hold_in_stage(stage: HoldStage) -> Hold:
    hold = new_hold()
    for command in PATHS[stage]:
        hold = apply(hold, command)
    assert hold.stage is stage
    return hold


def list_expectations() -> list[tuple[HoldStage, str, str]]:
    head, *lines = [line.split() for line in EXPECTED.strip().splitlines()]
    return [
        (HoldStage(stage), name, outcome)
        for name, *outcomes in lines
        for stage, outcome in zip(head, outcomes, strict=True)
    ]


def test_every_pair_of_stage_and_command_has_a_rule_and_an_expectation() -> None:
    assert set(TRANSITIONS) == set(product(HoldStage, HOLD_COMMANDS))
    expected = {(stage, name) for stage, name, _ in list_expectations()}
    assert expected == {(stage, command.__name__) for stage, command in TRANSITIONS}
    assert {type(one) for one in COMMANDS} == set(HOLD_COMMANDS)


@pytest.mark.parametrize(("stage", "name", "outcome"), list_expectations())
def test_a_command_does_what_is_expected(stage: HoldStage, name: str, outcome: str) -> None:
    hold = hold_in_stage(stage)
    command = next(one for one in COMMANDS if type(one).__name__ == name)
    if outcome == "409":
        with pytest.raises(RelayConflict):
            apply(hold, command)
    elif outcome == "-":
        assert apply(hold, command) is hold
    else:
        changed = apply(hold, command)
        assert changed.stage == outcome
        assert changed.row.rev == hold.row.rev + 1
        assert hold_from_row(changed.row) == changed


def enumerate_steps(
    hold: Hold, length: int, earlier: tuple[HoldCommand, ...] = ()
) -> Iterator[tuple[tuple[HoldCommand, ...], Hold, HoldCommand, Hold]]:
    """Every step of every sequence of up to `length` commands, with the commands that took effect before."""
    for command in COMMANDS:
        try:
            changed = apply(hold, command)
        except (RelayConflict, A2AError):
            changed = hold
        yield earlier, hold, command, changed
        if length > 1:
            took_effect = earlier if changed is hold else (*earlier, command)
            yield from enumerate_steps(changed, length - 1, took_effect)


def test_every_order_of_five_commands_keeps_the_rules() -> None:
    count = 0
    for earlier, hold, command, changed in enumerate_steps(new_hold(), 5):
        count += 1
        body = changed.body
        assert changed.stage.is_final == (body.done_at is not None)
        assert (changed.stage is HoldStage.FAILED) == (body.failure is not None)
        assert body.send_count <= MAX_SENDS
        decisions = [one for one in (*earlier, command) if isinstance(one, ApproveHold | RefuseHold)]
        if hold.stage.is_final:
            assert changed is hold, "a final stage stays"
        if hold.body.resolution is not None:
            assert (body.resolution, changed.row.status) == (hold.body.resolution, hold.row.status), (
                "the first decision counts"
            )
        if changed.stage in (HoldStage.SENDING, HoldStage.DELIVERED):
            assert isinstance(decisions[0], ApproveHold), "nothing is sent without approval"
            assert changed.is_approved
        if hold.stage is HoldStage.DELIVERED:
            assert changed.stage is not HoldStage.SENDING, "what the agent has is not sent again"
    assert count == sum(len(HOLD_COMMANDS) ** length for length in range(1, 6))


def test_a_message_with_an_unknown_result_is_sent_at_most_once_more() -> None:
    hold = apply(apply(hold_in_stage(HoldStage.APPROVED), BEGIN), BEGIN)
    with pytest.raises(A2AError, match="sent twice"):
        apply(hold, BEGIN)


def test_a_message_that_was_certainly_not_received_may_be_sent_as_often_as_before() -> None:
    hold = hold_in_stage(HoldStage.APPROVED)
    for _ in range(10):
        hold = apply(apply(hold, BEGIN), UNDO)
    assert (hold.stage, hold.body.send_count) == (HoldStage.APPROVED, 0)


@pytest.mark.parametrize("action", ["REJECTED", "EXPIRED", "WITHDRAWN"])
def test_a_refusal_never_becomes_an_approval(action: ResolutionAction) -> None:
    with pytest.raises(RelayConflict):
        apply(new_hold(), ApproveHold(resolution=resolution(action)))
    with pytest.raises(RelayConflict):
        apply(new_hold(), RefuseHold(resolution=resolution("APPROVED")))
    assert apply(new_hold(), RefuseHold(resolution=resolution(action))).row.status == action


EARLIER_ROWS: list[tuple[HoldStatus, dict[str, Any], HoldStage]] = [
    ("PENDING", {}, HoldStage.WAITING),
    ("APPROVED", {}, HoldStage.APPROVED),
    ("APPROVED", {"send_count": 1}, HoldStage.SENDING),
    ("APPROVED", {"send_count": 1, "agent_task_id": "agents"}, HoldStage.DELIVERED),
    ("REJECTED", {}, HoldStage.REFUSED),
    ("WITHDRAWN", {"done_at": NOW}, HoldStage.DONE),
    ("APPROVED", {"done_at": NOW, "failure": "no"}, HoldStage.FAILED),
]


@pytest.mark.parametrize(("status", "fields", "stage"), EARLIER_ROWS)
def test_a_row_of_an_earlier_release_gets_the_stage_that_its_fields_mean(
    status: HoldStatus, fields: dict[str, Any], stage: HoldStage
) -> None:
    assert new_hold(status, **fields).stage is stage


def test_the_digest_covers_the_bytes_and_where_the_message_goes_on() -> None:
    message = new_hold().message
    others = [
        replace(message, data=b"{ }"),
        replace(message, frame=replace(message.frame, leg=Leg.REQUEST_TO_SINK)),
        replace(message, frame=replace(message.frame, upstream_task="another")),
    ]
    assert message.digest not in {one.digest for one in others}
