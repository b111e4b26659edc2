"""Which answers are a yes: only the affirmative actions of the case's type, exactly as they are declared."""

import json
from typing import Any

import httpx
import pytest

from placet.agent import Agent, AsyncAgent, AsyncFollowingTransport, Decided, FollowedCase, FollowingTransport
from placet.agent.service_responses import read_case
from placet.cli.results import build_outcome_view, get_exit_code
from tests.agent.test_flow import NOW, make_flow, poll_body

SERVICE = "https://ci.example"
NEITHER = [
    "deny",
    "Reject",
    "no",
    "Cancel",
    "Abort",
    "APPROVE",
    " approve",
    "approve ",
    "approve\x00",
    "yes",
    "",
]
BY_TYPE = {
    "approval": (["approve"], ["edit", "reject", "confirm", "select", "submit", "retry", "skip"]),
    "selection": (["select"], ["approve", "reject"]),
    "input": (["submit"], ["approve", "cancel"]),
    "confirmation": (["confirm"], ["cancel", "approve", "abort"]),
    "escalation": (["retry", "skip"], ["abort", "approve"]),
}


def open_body(type: str = "approval", data: Any = None, **hitl: Any) -> dict[str, Any]:
    told = {
        "spec_version": "0.9",
        "case_id": "review_1",
        "type": type,
        "prompt": "Deploy?",
        "review_url": f"{SERVICE}/review/1",
        "poll_url": f"{SERVICE}/poll/1",
        **hitl,
    }
    body = {"status": "human_input_required", "hitl": told}
    return body if data is None else {**body, "data": data}


def parse_case(type: str = "approval", data: Any = None, **hitl: Any) -> FollowedCase:
    case = read_case(
        202, json.dumps(open_body(type, data, **hitl)).encode(), url=f"{SERVICE}/deploy", now=NOW
    )
    assert case is not None
    return case


def decide(case: FollowedCase, action: str) -> Decided:
    following = make_flow(case)
    following.report_response(200, {}, poll_body("completed", result={"action": action, "data": {}}), NOW)
    outcome = following.step(NOW).outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Decided)
    return outcome


@pytest.mark.parametrize("action", NEITHER)
@pytest.mark.parametrize("type", [*BY_TYPE, "x-photo-usage", "approvals", "Approval"])
def test_unlisted_action_is_not_a_yes(type: str, action: str) -> None:
    outcome = decide(parse_case(type), action)
    assert (outcome.is_affirmative, outcome.against, get_exit_code(outcome)) == (False, True, 10)
    assert build_outcome_view(outcome)["is_affirmative"] is False


@pytest.mark.parametrize("type", BY_TYPE)
def test_only_the_affirmative_actions_of_the_type_are_a_yes(type: str) -> None:
    yes, no = BY_TYPE[type]
    case = parse_case(type)
    assert [get_exit_code(decide(case, action)) for action in yes] == [0] * len(yes)
    assert [get_exit_code(decide(case, action)) for action in no] == [10] * len(no)


def test_a_custom_type_that_0_5_sends_as_input_keeps_its_affirmative_actions() -> None:
    data = {"type": "x-seating", "affirmative_actions": ["seat"]}
    old = parse_case("input", data, spec_version="0.5")
    assert (old.type, decide(old, "seat").is_affirmative) == ("x-seating", True)
    assert not decide(old, "submit").is_affirmative
    for type, version in (("approval", "0.5"), ("input", "0.9")):
        assert parse_case(type, data, spec_version=version).type == type
    assert parse_case("input", {"type": "approval"}, spec_version="0.5").type == "input"


def test_custom_type_declares_its_affirmative_actions() -> None:
    case = parse_case("x-photo-usage", data={"affirmative_actions": ["allow", "allow_once"]})
    assert [decide(case, action).is_affirmative for action in ("allow", "allow_once", "refuse")] == [
        True,
        True,
        False,
    ]
    assert decide(case, "approve").against


@pytest.mark.parametrize(
    "data",
    [
        *(None, [], "allow", {"affirmative_actions": "allow"}, {"affirmative_actions": {"allow": True}}),
        *({"affirmative_actions": [["allow"]]}, {"affirmative_actions": None}, {"affirmative_actions": True}),
        *({"affirmative_actions": [None, "allow"]}, {"affirmative_actions": ["allow", {"allow": True}]}),
    ],
)
def test_malformed_declaration_of_affirmative_actions_makes_nothing_a_yes(data: Any) -> None:
    assert decide(parse_case("x-photo-usage", data=data), "allow").against


def test_a_standard_type_cannot_declare_further_affirmative_actions() -> None:
    case = parse_case("approval", data={"affirmative_actions": ["reject", "edit", "no"]})
    assert all(decide(case, action).against for action in ("reject", "edit", "no"))


def test_an_escalation_declares_custom_actions_and_cannot_turn_a_no_into_a_yes() -> None:
    named = ["roll_back", "abort", "Abort", "approve", "reject", "stop", "deny"]
    case = parse_case("escalation", {"affirmative_actions": named})
    assert [action for action in [*named, "retry", "wait"] if decide(case, action).is_affirmative] == [
        "roll_back",
        "deny",
        "retry",
    ]
    assert decide(parse_case("escalation"), "roll_back").against
    assert decide(parse_case("approval", {"affirmative_actions": ["roll_back"]}), "roll_back").against


@pytest.mark.parametrize("type", ["Approval", "approvals", "custom", "tool_calls", "X-photo", " x-photo"])
def test_only_a_custom_type_can_declare_affirmative_actions(type: str) -> None:
    case = parse_case(type, data={"affirmative_actions": ["reject", "allow"]})
    assert all(decide(case, action).against for action in ("reject", "allow"))


def test_decision_made_by_hand_is_not_a_yes_unless_it_says_so() -> None:
    assert Decided(case_id="review_1", action="approve").against


def serve(type: str, action: str) -> httpx.MockTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/poll/1":
            polled = {"status": "completed", "case_id": "review_1", "result": {"action": action, "data": {}}}
            return httpx.Response(200, json=polled)
        return httpx.Response(202, json=open_body(type))

    return httpx.MockTransport(handle)


@pytest.mark.parametrize("action", ["deny", "Reject", "no", "Cancel", "Abort"])
def test_following_transport_answers_an_unlisted_action_with_409(action: str) -> None:
    inner = serve("approval", action)
    with (
        Agent(tell=lambda notice: None, http=httpx.Client(transport=inner), streams=False) as agent,
        httpx.Client(transport=FollowingTransport(agent, inner)) as client,
    ):
        response = client.post(f"{SERVICE}/deploy")
    assert (response.status_code, response.json()["is_affirmative"]) == (409, False)


@pytest.mark.anyio
@pytest.mark.parametrize(("action", "status"), [("deny", 409), ("Cancel", 409), ("approve", 200)])
async def test_async_following_transport_answers_200_only_to_a_yes(action: str, status: int) -> None:
    async def tell(notice: object) -> None:
        return None

    inner = serve("approval", action)
    async with (
        AsyncAgent(tell=tell, http=httpx.AsyncClient(transport=inner), streams=False) as agent,
        httpx.AsyncClient(transport=AsyncFollowingTransport(agent, inner)) as client,
    ):
        response = await client.post(f"{SERVICE}/deploy")
    assert (response.status_code, response.json()["is_affirmative"]) == (status, status == 200)
