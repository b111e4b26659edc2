"""Round numbers of follow-up cases, and the limit on suggestions."""

from typing import Any

import httpx
from msgspec.structs import replace

from placet.agent import Decided
from placet.agent.flow import Flow
from placet.agent.round_numbers import RoundNumbers, SuggestionLimit
from tests.agent.test_flow import CASE, NOW, poll_body

ADVICE = {"improvement_suggestions": [{"field": "cv", "issue": "short", "agent_action": "Ask for more."}]}


def completed_response(answer: dict[str, Any], url: str = "https://jobs.example/apply") -> httpx.Response:
    return httpx.Response(201, json=answer, request=httpx.Request("POST", url))


def test_follow_up_has_the_next_round_number() -> None:
    rounds = RoundNumbers()
    second = replace(CASE, case_id="review_2", previous_case_id="review_1")
    third = replace(CASE, case_id="review_3", previous_case_id="review_2")
    assert [rounds.number(case) for case in (CASE, second, third, second)] == [1, 2, 3, 2]


def test_follow_up_to_an_unknown_case_is_round_two() -> None:
    assert RoundNumbers().number(replace(CASE, previous_case_id="review_0")) == 2


def test_a_decision_names_the_question_it_went_on_with() -> None:
    following = Flow(CASE, now=NOW, dice=lambda: 0.0)
    answer = poll_body("completed", result={"action": "edit"}, next_case_id="review_2")
    following.report_response(200, {}, answer, NOW)
    outcome = following.step(NOW).outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Decided)
    assert outcome.next_case_id == "review_2"


def test_advice_for_the_same_call_is_offered_twice_and_for_another_anew() -> None:
    advice = SuggestionLimit()
    offered = [len(advice.list_next_suggestions(completed_response(ADVICE))) for _ in range(4)]
    assert offered == [1, 1, 0, 0]
    assert len(advice.list_next_suggestions(completed_response(ADVICE, "https://jobs.example/other"))) == 1


def test_response_without_suggestions_does_not_use_a_cycle() -> None:
    advice = SuggestionLimit()
    for _ in range(5):
        assert advice.list_next_suggestions(completed_response({"status": "done"})) == ()
    assert advice.list_next_suggestions(completed_response(ADVICE))
