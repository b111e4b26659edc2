from datetime import timedelta

import pytest

from placet.errors import ValidationFailed
from placet.protocol.negotiation import (
    A2A_STATES,
    ADL_STATES,
    HITL_STATUSES,
    WDL_STATES,
    a2a_input_required,
    a2a_state,
    adl_bridge,
    adl_response,
    adl_state,
    hitl_status,
    wdl_bridge,
    wdl_state,
)

STATUSES = ("pending", "opened", "in_progress", "completed", "expired", "cancelled")
PAGE = "https://deals.example/review/1?token=t"
POLL = "https://deals.example/v1/reviews/1/status"


@pytest.mark.parametrize("table", [ADL_STATES, WDL_STATES, A2A_STATES])
def test_every_status_has_a_word_in_every_protocol(table):
    assert tuple(table) == STATUSES


@pytest.mark.parametrize(
    ("action", "response"),
    [("approve", "ACCEPT"), ("reject", "DENY"), ("edit", "COUNTER"), ("submit", "COUNTER")],
)
def test_an_action_becomes_an_adl_response(action, response):
    assert adl_response(action) == response


def test_input_that_was_asked_for_resolves_a_clarification():
    assert adl_response("submit", clarifying=True) == "CLARIFY"
    assert adl_response("approve", clarifying=True) == "ACCEPT"


@pytest.mark.parametrize(
    "action", ["confirm", "cancel", "skip", "", "ACCEPT", pytest.param("x\ud800" * 100, id="hostile")]
)
def test_an_action_without_an_adl_word_is_refused_not_guessed(action):
    with pytest.raises(ValidationFailed, match="No mapping for the action"):
        adl_response(action)


@pytest.mark.parametrize(
    ("status", "action", "state"),
    [
        ("pending", None, "PROPOSED"),
        ("opened", None, "NEGOTIATING"),
        ("in_progress", None, "NEGOTIATING"),
        ("completed", "approve", "AGREED"),
        ("completed", "edit", "NEGOTIATING"),
        ("completed", "reject", "NEGOTIATING"),
        ("completed", None, "NEGOTIATING"),
        ("expired", "approve", "EXPIRED"),
        ("cancelled", None, "DECLINED"),
    ],
)
def test_a_deal_is_agreed_only_by_an_approval(status, action, state):
    assert adl_state(status, action) == state


def test_wdl_states_follow_the_table():
    assert [wdl_state(status) for status in STATUSES] == [
        "UNCERTAINTY",
        "POTENTIAL",
        "GAP",
        "MATCH",
        "CONFLICT",
        "CONFLICT",
    ]


@pytest.mark.parametrize("look_up", [adl_state, wdl_state, a2a_state])
def test_an_unknown_status_is_refused(look_up):
    with pytest.raises(ValidationFailed, match="known are pending"):
        look_up("done")


def test_an_adl_term_carries_the_way_to_the_person():
    assert adl_bridge(PAGE, POLL, "high") == {
        "bridge_type": "human_escalation",
        "escalation_urgency": "high",
        "hitl_review_url": PAGE,
        "hitl_poll_url": POLL,
    }


def test_a_wdl_entry_says_which_review_it_waits_for():
    tokens = wdl_bridge("confirmation", timedelta(hours=36), "medium")
    assert tokens["external_review_protocol"] == "hitl"
    assert tokens["hitl_config"] == {"review_type": "confirmation", "timeout": "P1DT12H"}


def test_an_unknown_urgency_is_refused():
    with pytest.raises(ValidationFailed, match="low, medium or high"):
        adl_bridge(PAGE, POLL, "asap")  # type: ignore[arg-type]


def test_an_a2a_task_carries_the_hitl_object_unchanged():
    hitl = {"case_id": "review_1", "review_url": PAGE}
    task = a2a_input_required("task_123", hitl)
    assert task == {"task_id": "task_123", "state": "input-required", "hitl": hitl}
    assert task["hitl"] is not hitl


@pytest.mark.parametrize(
    ("task_id", "hitl"), [("", {"review_url": PAGE}), ("t", {}), ("t", {"review_url": ""})]
)
def test_an_a2a_task_nobody_could_act_on_is_refused(task_id, hitl):
    with pytest.raises(ValidationFailed):
        a2a_input_required(task_id, hitl)


def test_a_decision_lets_the_task_go_on_but_does_not_finish_it():
    assert a2a_state("completed") == "working"
    assert a2a_state("pending") == "input-required"
    assert a2a_state("expired") == a2a_state("cancelled") == "canceled"


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("input-required", "pending"),
        ("TASK_STATE_INPUT_REQUIRED", "pending"),
        ("TASK_STATE_CANCELLED", "cancelled"),
        ("canceled", "cancelled"),
        ("completed", "cancelled"),
        ("failed", "cancelled"),
        ("working", None),
        ("TASK_STATE_AUTH_REQUIRED", None),
    ],
)
def test_a_task_state_says_what_becomes_of_its_case(state, status):
    assert hitl_status(state) == status


def test_no_task_state_completes_a_case():
    assert "completed" not in HITL_STATUSES.values()


def test_an_unknown_task_state_is_refused():
    with pytest.raises(ValidationFailed, match="A2A state"):
        hitl_status("paused")
