"""A held message on its page: what it says, what was found in it, and the one thing a reviewer decides."""

from typing import Any

import pytest

from placet.cases.case import Offer
from placet.desk.draft import draft_from
from placet.errors import BadRequest, InvalidAction, ValidationFailed
from placet.reviews.held_messages.message_context import Excerpt, Mark, split_at_marks
from placet.reviews.registry import REVIEW_TYPES, SAMPLES, load_review_type
from tests.pages.gallery import offer_of, rendered, review_view


def make_message(**changed: Any) -> dict[str, Any]:
    body = SAMPLES["held_message"].example()
    body["context"]["held_message"] |= changed
    return body


def make_offer(body: dict[str, Any]) -> Offer:
    return offer_of(body)


def make_mark(start: int, end: int, entity: str = "US_SSN", policy: str = "SSNs") -> Mark:
    return Mark(start=start, end=end, entity=entity, policy=policy, action="HUMAN_REVIEW_REQUIRED")


def test_the_example_can_be_asked_and_is_recognised() -> None:
    draft = draft_from(SAMPLES["held_message"].example())
    assert REVIEW_TYPES["approval"].variant_for(draft.context) is SAMPLES["held_message"]
    assert load_review_type(make_offer(make_message())) is SAMPLES["held_message"]
    assert SAMPLES["held_message"].prepare(draft.context) == draft.context


def test_it_goes_on_or_not_with_a_message_and_nothing_else() -> None:
    offer = make_offer(make_message())
    assert SAMPLES["held_message"].check(offer, "approve", {}) == {}
    assert SAMPLES["held_message"].check(offer, "reject", {"message": "Not by mail."}) == {
        "message": "Not by mail."
    }
    with pytest.raises(InvalidAction):
        SAMPLES["held_message"].check(offer, "edit", {})
    with pytest.raises(BadRequest):
        SAMPLES["held_message"].check(offer, "approve", {"edits": {"text": "other"}})


@pytest.mark.parametrize("wrong", ["a text", {"matter": "rumour"}, {"texts": [{"path": "x"}]}])
def test_malformed_held_message_is_refused_at_opening(wrong: Any) -> None:
    body = make_message()
    body["context"]["held_message"] = (
        wrong if isinstance(wrong, str) else body["context"]["held_message"] | wrong
    )
    with pytest.raises(ValidationFailed):
        SAMPLES["held_message"].prepare(body["context"])


def test_marks_cut_the_text_and_may_overlap() -> None:
    excerpt = Excerpt(
        at=0, text="abcdefgh", marks=(make_mark(1, 5), make_mark(3, 7, "OTHER", "Others"), make_mark(6, 99))
    )
    found = [(one.text, one.found) for one in split_at_marks(excerpt, None)]
    assert [text for text, _ in found] == ["a", "bc", "de", "f", "g", "h"]
    assert found[0][1] == ()
    assert found[2][1] == ("US_SSN · SSNs", "OTHER · Others")
    assert "".join(text for text, _ in found) == "abcdefgh"


def test_the_page_marks_what_was_found_and_names_sender_receiver_and_policy() -> None:
    page = rendered(review_view(make_offer(make_message())))
    assert "<mark>536-22-8764<span" in page
    for name in ("travel-planner", "bookings", "Review Messages with SSNs", "passport.png"):
        assert name in page
    assert "Note for the records" in page
    assert 'value="edit"' not in page


def test_the_page_of_an_agent_that_asks_has_room_for_an_answer() -> None:
    page = rendered(review_view(make_offer(make_message(matter="input", policy=None))))
    assert "Your answer to the agent" in page
    assert "the agent asks for input" in page
    assert "Your answer goes to" in page
    assert "exactly as it is shown" not in page


def test_approving_a_question_is_answering_it() -> None:
    question, message = make_offer(make_message(matter="input", policy=None)), make_offer(make_message())
    actions = SAMPLES["held_message"].actions
    assert [SAMPLES["held_message"].find_outcome(question, action) for action in actions] == [
        "submit",
        "reject",
    ]
    assert [SAMPLES["held_message"].find_outcome(message, action) for action in actions] == [
        "approve",
        "reject",
    ]


def test_data_is_shown_as_it_is() -> None:
    page = rendered(
        review_view(make_offer(make_message(data=[{"amount": 5000, "to": "<b>"}], data_left_out=2)))
    )
    assert "5000" in page.replace(",", "")
    assert "&lt;b&gt;" in page
    assert "2 pieces of data are too large" in page


def test_hostile_text_stays_text() -> None:
    evil = "<script>alert(1)</script>\u202egnp.exe"
    texts = [
        {
            "path": "<b>",
            "length": 99,
            "excerpts": [{"at": 0, "text": evil, "marks": [{**mark_of(evil), "entity": "<i>"}]}],
        }
    ]
    page = rendered(review_view(make_offer(make_message(texts=texts, sender="<img src=x>"))))
    assert "<script>alert" not in page
    assert "<img src=x>" not in page
    assert "<i>" not in page
    assert "characters of this text are not shown here" in page


def mark_of(text: str) -> dict[str, Any]:
    return {"start": 0, "end": len(text), "entity": "E", "policy": "P", "action": "MASK"}


def test_files_of_a_case_from_an_earlier_version_are_named() -> None:
    page = rendered(review_view(make_offer(make_message(files=["message.parts[1].file.bytes"]))))
    assert "message.parts[1].file.bytes" in page
    assert "passport.png" not in page
