import msgspec
import pytest

from placet.errors import ValidationFailed
from placet.protocol.improvement import Suggestion, improvement_suggestions


def suggestion(**changes):
    given = {
        "field": "salary",
        "issue": "No expectation given",
        "agent_action": "Ask for the yearly salary your user expects.",
        "impact": "Matches twice as many offers",
        "priority": "medium",
    }
    return Suggestion(**{**given, **changes})


def test_suggestions_come_most_urgent_first_and_keep_their_order_within():
    given = [
        suggestion(field="a", priority="low"),
        suggestion(field="b", priority="high"),
        suggestion(field="c", priority="medium"),
        suggestion(field="d", priority="high"),
    ]
    part = improvement_suggestions(given, cycle=0)
    assert [entry["field"] for entry in part["improvement_suggestions"]] == ["b", "d", "c", "a"]
    assert part["improvement_suggestions"][0]["priority"] == "high"


@pytest.mark.parametrize(("cycle", "offered"), [(0, 1), (1, 1), (2, 0), (3, 0), (10**9, 0)])
def test_after_two_cycles_nothing_more_is_suggested(cycle, offered):
    assert len(improvement_suggestions([suggestion()], cycle)["improvement_suggestions"]) == offered


def test_nothing_to_suggest_is_said_plainly():
    assert improvement_suggestions([], cycle=0) == {"improvement_suggestions": []}


def test_a_negative_cycle_is_refused():
    with pytest.raises(ValidationFailed, match="0 or more"):
        improvement_suggestions([suggestion()], cycle=-1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"priority": "urgent"}, "priority must be high, medium or low"),
        ({"issue": " "}, "issue must be"),
        ({"field": ""}, "field must be"),
        ({"agent_action": "x" * 501}, "agent_action must be"),
    ],
)
def test_a_suggestion_nobody_could_act_on_is_refused(change, named):
    with pytest.raises(ValidationFailed, match=named):
        suggestion(**change)


def test_a_suggestion_survives_json():
    given = suggestion()
    assert msgspec.json.decode(msgspec.json.encode(given), type=Suggestion) == given
