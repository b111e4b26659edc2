"""Trying again, going on without, stopping."""

from typing import Any

import pytest

from assent.errors import InvalidAction, InvalidSubmission, ValidationFailed
from assent.reviews.escalation.kind import Escalation
from tests.reviews.offers import offer

KIND = Escalation()
PARAMS = {
    "size": 100,
    "rate": 0.5,
    "dry": False,
    "host": "a.example",
    "tags": ["x"],
    "opts": {"a": 1},
    "none": None,
}


def check(action: str, data: dict[str, Any], **context: Any) -> dict[str, Any]:
    return KIND.check(offer(KIND, context), action, data)


@pytest.mark.parametrize("action", ["retry", "skip", "abort"])
def test_every_action_is_a_bare_press_too(action: str) -> None:
    assert action in KIND.inline_for({})
    assert check(action, {"reason": "Because", "modified_params": {}}) == {"reason": "Because"}


def test_a_retry_may_change_what_the_context_lists() -> None:
    changed = {"size": 50, "rate": 2, "dry": True, "host": "b.example", "tags": [], "opts": {}, "none": "x"}
    assert check("retry", {"modified_params": changed}, params=PARAMS) == {"modified_params": changed}


def test_without_a_list_a_retry_may_change_anything() -> None:
    assert check("retry", {"modified_params": {"any": [1]}}) == {"modified_params": {"any": [1]}}


@pytest.mark.parametrize("action", ["skip", "abort"])
def test_changed_parameters_go_with_a_retry_only(action: str) -> None:
    with pytest.raises(InvalidSubmission, match=r"^modified_params: Changed parameters go with a retry only"):
        check(action, {"modified_params": {"size": 50}}, params=PARAMS)


def test_parameters_that_are_not_listed_are_refused_by_name() -> None:
    with pytest.raises(InvalidSubmission, match="These cannot be changed: speed") as refusal:
        check("retry", {"modified_params": {"size": 50, "speed": 9}}, params=PARAMS)
    assert refusal.value.details["unknown"] == ["speed"]


@pytest.mark.parametrize(
    "changed",
    [{"size": "many"}, {"size": True}, {"dry": 1}, {"host": 5}, {"tags": "x"}, {"opts": []}, {"host": None}],
)
def test_a_parameter_keeps_its_type(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission, match=f"of another kind than before: {next(iter(changed))}"):
        check("retry", {"modified_params": changed}, params=PARAMS)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"why": "x"}, "does not ask for: why"),
        ({"reason": ["x"]}, "reason: This must be text"),
        ({"reason": "x" * 10_001}, "reason: Shorten"),
        ({"modified_params": [1]}, "modified_params: This must be an object"),
    ],
)
def test_data_that_does_not_fit_is_refused_by_name(data: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSubmission, match=complaint):
        check("retry", data)


def test_another_action_is_refused() -> None:
    with pytest.raises(InvalidAction, match="it offers retry, skip, abort"):
        check("approve", {})


def test_parameters_must_be_an_object() -> None:
    with pytest.raises(ValidationFailed, match=r"context\.params must be an object"):
        KIND.prepare({"params": ["size"]})


def test_an_untouched_page_changes_no_parameter() -> None:
    pairs = [
        ("param.size", "100"),
        ("param.rate", "0.5"),
        ("param.dry", "false"),
        ("param.host", "a.example"),
    ]
    assert KIND.form_data(offer(KIND, {"params": PARAMS}), pairs) == {}


def test_what_is_typed_takes_the_type_it_had_before() -> None:
    pairs = [
        ("param.size", " 50 "),
        ("param.rate", "1.5e1"),
        ("param.dry", "true"),
        ("param.host", "b.example"),
        ("param.tags", "gone"),
        ("param.other", "x"),
        ("reason", "Slow"),
    ]
    assert KIND.form_data(offer(KIND, {"params": PARAMS}), pairs) == {
        "reason": "Slow",
        "modified_params": {"size": 50, "rate": 15.0, "dry": True, "host": "b.example"},
    }


def test_what_cannot_take_the_type_is_kept_as_typed_and_refused() -> None:
    asked = offer(KIND, {"params": PARAMS})
    data = KIND.form_data(asked, [("param.size", "lots"), ("param.dry", "perhaps")])
    assert data == {"modified_params": {"size": "lots", "dry": "perhaps"}}
    with pytest.raises(InvalidSubmission, match="another kind than before: size, dry"):
        KIND.check(asked, "retry", data)
    typed = {param["key"]: param["typed"] for param in KIND.substance(asked, data)["params"]}
    assert (typed["size"], typed["dry"], typed["rate"]) == ("lots", "perhaps", "0.5")


def test_the_failure_and_the_other_facts_are_told_apart() -> None:
    substance = KIND.substance(offer(KIND, {"error": "Timeout", "params": {}, "log": "…"}), {})
    assert (substance["error"], substance["params"], substance["facts"]) == ("Timeout", [], {"log": "…"})
