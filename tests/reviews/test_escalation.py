"""The review type escalation: retry, skip or abort."""

from typing import Any

import pytest

from placet.errors import InvalidAction, InvalidSubmission, ValidationFailed
from placet.reviews.escalation.review_type import Escalation
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
    typed = {param["key"]: param["typed"] for param in KIND.build_page_content(asked, data)["params"]}
    assert (typed["size"], typed["dry"], typed["rate"]) == ("lots", "perhaps", "0.5")


def build_content(**context: Any) -> dict[str, Any]:
    return KIND.build_page_content(offer(KIND, context), {})


def test_the_failure_and_the_other_facts_are_told_apart() -> None:
    substance = build_content(error="Timeout", params={}, log="…", shop="Ghent")
    assert (substance["error"]["message"], substance["params"]) == ("Timeout", [])
    assert [log["newest"][0]["text"] for log in substance["logs"]] == ["…"]
    assert substance["facts"] == {"shop": "Ghent"}


def test_message_type_code_time_and_attempts_of_a_failure_stand_apart() -> None:
    error = {
        "type": "TimeoutError",
        "message": "No answer",
        "code": 504,
        "failed_at": "2026-05-06T02:14:00Z",
        "attempts": 3,
        "max_attempts": 5,
        "step": "Fetch",
    }
    inside = build_content(error=error)["error"]
    beside = build_content(
        error_type="TimeoutError",
        error_message="No answer",
        error_code=504,
        failed_at="2026-05-06T02:14:00Z",
        attempts=3,
        max_attempts=5,
    )["error"]
    parts = ("message", "type", "code", "since", "attempts", "most")
    assert [inside[part] for part in parts] == [beside[part] for part in parts]
    assert [inside[part] for part in parts] == ["No answer", "TimeoutError", 504, error["failed_at"], 3, 5]
    assert (inside["rest"], beside["rest"]) == ({"step": "Fetch"}, {})


def test_parts_of_another_shape_are_shown_as_facts() -> None:
    substance = build_content(error={"message": ["a"], "attempts": [{"at": "now"}], "code": True}, since=5)
    assert substance["error"]["rest"] == {"message": ["a"], "attempts": [{"at": "now"}], "code": True}
    assert substance["facts"] == {"since": 5}
    assert build_content(error=["a", "b"])["error"]["other"] == ["a", "b"]


def test_a_log_of_objects_keeps_levels_and_times_and_loses_nothing() -> None:
    entries = [
        {"time": "10:00", "level": "info", "message": "Started", "job": 7},
        {"timestamp": "10:01", "severity": "ERROR", "msg": "Failed", "level": {"odd": 1}},
    ]
    [log] = build_content(logs=entries)["logs"]
    first, second = log["newest"]
    assert (first["level"], first["grade"], first["at"], first["text"]) == (
        "Info",
        None,
        "10:00",
        "Started job=7",
    )
    assert (second["level"], second["grade"]) == ("Error", "bad")
    assert second["text"] == 'Failed level={"odd":1}'


def test_a_long_log_shows_its_newest_lines_and_folds_the_others() -> None:
    [log] = build_content(log="\n".join(f"line {number}" for number in range(100)))["logs"]
    assert [line["text"] for line in log["newest"]][-1] == "line 99"
    assert log["earlier"].splitlines() == [f"line {number}" for number in range(75)]
    backwards = [{"at": f"10:{minute:02}", "text": str(minute)} for minute in range(59, 0, -1)]
    [log] = build_content(logs=backwards)["logs"]
    assert log["newest_first"]
    assert log["newest"][0]["text"] == "59"
    assert log["earlier"].endswith("10:01 1")


@pytest.mark.parametrize("log", [5, [1, 2], [{"level": "info"}], [], "  ", {"a": 1}])
def test_malformed_log_is_shown_as_a_fact(log: Any) -> None:
    substance = build_content(logs=log)
    assert (substance["logs"], substance["facts"]) == ([], {"logs": log})


def test_a_trace_inside_the_error_is_a_log_of_its_own() -> None:
    substance = build_content(error={"message": "Broken", "stack": "one\ntwo"}, output="fine")
    assert [log["title"] for log in substance["logs"]] == ["Where it happened"]
    assert (substance["error"]["rest"], substance["facts"]) == ({}, {"output": "fine"})


def test_suggestions_name_their_action_if_the_case_offers_it() -> None:
    advice = ["retry", "Call the supplier", {"action": "skip", "reason": "It is late", "risk": "low"}]
    assert build_content(suggested_actions=advice)["suggestions"] == [
        {"action": "retry", "text": None, "facts": {}},
        {"action": None, "text": "Call the supplier", "facts": {}},
        {"action": "skip", "text": "It is late", "facts": {"risk": "low"}},
    ]
    assert build_content(suggestion="Wait")["suggestions"][0]["text"] == "Wait"
    assert build_content(suggestions=[5])["facts"] == {"suggestions": [5]}


def test_a_changed_parameter_is_marked_and_a_wrong_one_told_what_to_type() -> None:
    values = {"modified_params": {"size": 50, "rate": "fast"}}
    params = {
        param["key"]: param
        for param in KIND.build_page_content(offer(KIND, {"params": PARAMS}), values)["params"]
    }
    assert [key for key, param in params.items() if param["changed"]] == ["size", "rate"]
    assert params["rate"]["problem"] == "Write a number, such as 0.5."
    assert params["size"]["problem"] is None


@pytest.mark.parametrize("action", ["skip", "abort"])
def test_changed_parameters_on_the_page_are_ignored_unless_it_is_tried_again(action: str) -> None:
    asked = offer(KIND, {"params": PARAMS})
    pairs = [("param.size", "50"), ("reason", "Late")]
    assert KIND.handle_post(asked, action, pairs, {}).values == {"reason": "Late"}
    assert KIND.handle_post(asked, "retry", pairs, {}).values["modified_params"] == {"size": 50}
    refused = KIND.handle_post(asked, action, [("param.size", "50"), ("reason", "x" * 10_001)], {}).values
    assert refused["modified_params"] == {"size": 50}


def test_a_suggested_reason_is_sent() -> None:
    asked = offer(KIND, {"reason_presets": ["Supplier is down"]})
    assert KIND.form_data(asked, [("preset", "1"), ("reason", "")]) == {"reason": "Supplier is down"}
