"""What an agent remembers of its dealings: rounds of a question, and advice it has had."""

from typing import Any

import httpx
from msgspec.structs import replace

from placet.agent import Decided
from placet.agent.flow import Flow
from placet.agent.round_numbers import RoundNumbers, SuggestionLimit
from tests.agent.test_flow import CASE, NOW, body

ADVICE = {"improvement_suggestions": [{"field": "cv", "issue": "short", "agent_action": "Ask for more."}]}


def finished(answer: dict[str, Any], url: str = "https://jobs.example/apply") -> httpx.Response:
    return httpx.Response(201, json=answer, request=httpx.Request("POST", url))


def test_each_round_counts_on_from_the_one_before() -> None:
    rounds = RoundNumbers()
    second = replace(CASE, case_id="review_2", previous_case_id="review_1")
    third = replace(CASE, case_id="review_3", previous_case_id="review_2")
    assert [rounds.number(case) for case in (CASE, second, third, second)] == [1, 2, 3, 2]


def test_a_follow_up_to_something_unseen_is_at_least_a_second_round() -> None:
    assert RoundNumbers().number(replace(CASE, previous_case_id="review_0")) == 2


def test_a_decision_names_the_question_it_went_on_with() -> None:
    following = Flow(CASE, now=NOW, dice=lambda: 0.0)
    answer = body("completed", result={"action": "edit"}, next_case_id="review_2")
    following.report_response(200, {}, answer, NOW)
    outcome = following.step(NOW).outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Decided)
    assert outcome.next_case_id == "review_2"


def test_advice_for_the_same_call_is_offered_twice_and_for_another_anew() -> None:
    advice = SuggestionLimit()
    offered = [len(advice.next_suggestions(finished(ADVICE))) for _ in range(4)]
    assert offered == [1, 1, 0, 0]
    assert len(advice.next_suggestions(finished(ADVICE, "https://jobs.example/other"))) == 1


def test_an_answer_without_advice_costs_none() -> None:
    advice = SuggestionLimit()
    for _ in range(5):
        assert advice.next_suggestions(finished({"status": "done"})) == ()
    assert advice.next_suggestions(finished(ADVICE))
