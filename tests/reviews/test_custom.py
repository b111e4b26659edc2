"""Custom review types."""

import pytest

from placet.errors import InvalidAction
from placet.reviews.custom.review_type import Custom
from tests.reviews.offers import offer

KIND = Custom()


def test_only_declared_actions_are_offered() -> None:
    asked = offer(KIND, {"photo": "x"}, actions=("allow", "refuse"))
    assert KIND.check(asked, "allow", {"anything": {"goes": [1, None]}}) == {"anything": {"goes": [1, None]}}
    with pytest.raises(InvalidAction, match="it offers allow, refuse"):
        KIND.check(asked, "approve", {})


def test_the_whole_context_is_shown() -> None:
    asked = offer(KIND, {"photo": "x", "presets": {"a": 1}}, actions=("allow",))
    assert KIND.build_page_content(asked, {})["facts"] == {"photo": "x", "presets": {"a": 1}}


def test_the_page_sends_a_note() -> None:
    asked = offer(KIND, actions=("allow",))
    assert KIND.form_data(asked, [("note", "Fine"), ("other", "x")]) == {"note": "Fine"}
    assert KIND.form_data(asked, [("note", " ")]) == {}


def test_a_suggested_reason_goes_before_the_note() -> None:
    asked = offer(KIND, {"reason_presets": ["Too dark"]}, actions=("refuse",))
    assert KIND.form_data(asked, [("preset", "1"), ("note", "Sorry")]) == {"note": "Too dark\n\nSorry"}
    assert KIND.build_page_content(asked, {})["facts"] == {}
