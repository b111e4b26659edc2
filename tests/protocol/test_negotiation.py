"""Reviews in ADL, WDL and A2A: the tables of appendix F and section 14.1, and what they do not say."""

from typing import Any

import pytest

from placet.errors import ValidationFailed
from placet.protocol.agent_task import (
    TASK_STATES,
    build_input_required_task,
    read_hitl_of_task,
    task_state_from_poll,
)
from placet.protocol.negotiation import (
    DealUpdate,
    add_review_to_term,
    deal_update_from_poll,
    draft_from_requirement,
    work_state_from_poll,
)

HITL = {
    "case_id": "review_1",
    "review_url": "https://deals.example/review/1?token=t",
    "poll_url": "https://deals.example/v1/reviews/1/status",
    "prompt": "Accept 500 EUR?",
}
REQUIREMENT = {
    "category": "Aptitude",
    "key": "aptitude.assessment",
    "kind": "MUST",
    "tokens": {
        "bridge_type": "human_escalation",
        "escalation_urgency": "medium",
        "external_review_protocol": "hitl",
        "hitl_config": {"review_type": "confirmation", "timeout": "PT24H"},
    },
}


def completed(action: str, **data: Any) -> dict[str, Any]:
    return {"status": "completed", "case_id": "review_1", "result": {"action": action, "data": data}}


@pytest.mark.spec("F-adl-response")
@pytest.mark.parametrize(
    ("action", "response", "state"),
    [
        ("approve", "ACCEPT", "AGREED"),
        ("reject", "DENY", "DECLINED"),
        ("edit", "COUNTER", "NEGOTIATING"),
        ("submit", "COUNTER", "NEGOTIATING"),
    ],
)
def test_an_answer_becomes_the_response_to_a_deal(action: str, response: Any, state: str) -> None:
    update = deal_update_from_poll(completed(action, price=300))
    assert update == DealUpdate(state=state, response=response, data={"price": 300})


@pytest.mark.spec("F-adl-response")
def test_missing_information_resolves_a_clarification() -> None:
    update = deal_update_from_poll(completed("submit", since="2024"), clarifies=True)
    assert (update.response, update.state) == ("CLARIFY", "NEGOTIATING")
    assert deal_update_from_poll(completed("approve"), clarifies=True).response == "ACCEPT"


@pytest.mark.spec("F-states")
@pytest.mark.parametrize(
    ("status", "deal", "work"),
    [
        ("pending", "PROPOSED", "UNCERTAINTY"),
        ("opened", "NEGOTIATING", "POTENTIAL"),
        ("in_progress", "NEGOTIATING", "GAP"),
        ("expired", "EXPIRED", "CONFLICT"),
        ("cancelled", "DECLINED", "CONFLICT"),
    ],
)
def test_a_review_without_an_answer_is_no_agreement(status: str, deal: str, work: str) -> None:
    poll = {"status": status, "default_action": "approve"}
    assert deal_update_from_poll(poll) == DealUpdate(state=deal)
    assert work_state_from_poll(poll) == work


@pytest.mark.spec("F-states")
@pytest.mark.parametrize(
    ("action", "state"),
    [("confirm", "MATCH"), ("approve", "MATCH"), ("cancel", "CONFLICT"), ("x-unknown", "CONFLICT")],
)
def test_only_a_yes_is_a_match(action: str, state: str) -> None:
    assert work_state_from_poll(completed(action)) == state


@pytest.mark.spec("F-adl-bridge")
def test_a_term_gets_a_bridge_to_the_review() -> None:
    term = {"key": "comp.infra_cost", "value": 500, "bridge": {"human_sla_iso": "PT4H"}}
    assert add_review_to_term(term, HITL, urgency="high") == {
        "key": "comp.infra_cost",
        "value": 500,
        "bridge": {
            "human_sla_iso": "PT4H",
            "bridge_type": "human_escalation",
            "escalation_urgency": "high",
            "hitl_review_url": HITL["review_url"],
            "hitl_poll_url": HITL["poll_url"],
        },
    }


@pytest.mark.spec("F-wdl-draft")
def test_a_requirement_becomes_the_draft_of_a_case() -> None:
    draft = draft_from_requirement(REQUIREMENT)
    assert (draft["type"], draft["timeout"]) == ("confirmation", "PT24H")
    assert "aptitude.assessment" in draft["prompt"]
    assert draft_from_requirement(REQUIREMENT, prompt="Certified?")["prompt"] == "Certified?"


@pytest.mark.parametrize(
    "poll",
    [{}, {"status": "done"}, {"status": "completed"}, completed("retry"), completed("x-haggle")],
    ids=str,
)
def test_what_has_no_place_in_adl_is_refused(poll: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailed):
        deal_update_from_poll(poll)


@pytest.mark.parametrize(
    "tokens",
    [{}, {"external_review_protocol": "mail"}, {"hitl_config": {}}, {"bridge_type": "auto"}],
    ids=str,
)
def test_a_requirement_that_asks_for_no_review_is_refused(tokens: dict[str, Any]) -> None:
    changed = {**REQUIREMENT["tokens"], **tokens} if tokens else {}  # type: ignore[dict-item]
    with pytest.raises(ValidationFailed):
        draft_from_requirement({**REQUIREMENT, "tokens": changed})


@pytest.mark.spec("14.1-input-required")
def test_a_202_becomes_a_task_that_requires_input_and_back() -> None:
    body = {"status": "human_input_required", "message": "500 EUR?", "hitl": HITL}
    task = build_input_required_task(body, task_id="task_123", context_id="deal")
    assert task["status"]["state"] == "input-required"
    assert HITL["review_url"] in task["status"]["message"]["parts"][0]["text"]
    assert read_hitl_of_task(task) == HITL
    assert read_hitl_of_task({"task_id": "task_123", "state": "input-required", "hitl": HITL}) == HITL
    assert read_hitl_of_task({**task, "status": {"state": "completed"}}) is None
    broken: dict[str, Any]
    for broken in ({}, {"hitl": []}, {"hitl": {}}):
        with pytest.raises(ValidationFailed):
            build_input_required_task(broken, task_id="t", context_id="c")


@pytest.mark.spec("14.1-input-required")
def test_a_decision_does_not_end_the_task() -> None:
    assert {status: task_state_from_poll({"status": status}) for status in TASK_STATES} == dict(TASK_STATES)
    assert task_state_from_poll(completed("approve")) == "working"
    with pytest.raises(ValidationFailed):
        task_state_from_poll({"status": None})
