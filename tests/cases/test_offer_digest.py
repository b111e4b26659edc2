"""An approval is bound to exactly what was shown."""

import pytest
from msgspec.structs import replace

from placet.cases.case import Offer, compute_offer_digest
from placet.protocol.surface import Surface
from placet.testing.samples import sample_offer

CHANGES = {
    "type": "confirmation",
    "prompt": "Send the newsletter to 1,201 readers?",
    "message": "Another message",
    "context": {"subject": "Spring", "recipients": 1201},
    "page_only": ("subject",),
    "actions": ("approve",),
    "affirmative_actions": ("approve",),
    "inline_actions": (),
    "timeout": "25h",
    "surface": Surface(format="json-render"),
    "service": "Letters",
    "agent": "Helper",
    "only_reviewer": "Ada",
    "four_eyes": True,
    "asked_by": ("ada",),
    "reviewers": ("ada@acme.example",),
    "result_schema": {"type": "object"},
    "salt": "b7",
}


def test_the_order_of_keys_does_not_matter() -> None:
    one = sample_offer(context={"a": 1, "b": {"c": 2, "d": 3}})
    other = sample_offer(context={"b": {"d": 3, "c": 2}, "a": 1})
    assert compute_offer_digest("review_1", one) == compute_offer_digest("review_1", other)


@pytest.mark.parametrize("field", CHANGES)
def test_whatever_changes_in_the_offer_changes_its_digest(field: str) -> None:
    offer = sample_offer()
    assert compute_offer_digest(
        "review_1", replace(offer, **{field: CHANGES[field]})
    ) != compute_offer_digest("review_1", offer)


def test_the_same_offer_in_another_case_is_another_approval() -> None:
    assert compute_offer_digest("review_1", sample_offer()) != compute_offer_digest(
        "review_2", sample_offer()
    )


def test_no_field_of_the_offer_is_forgotten_here() -> None:
    assert set(CHANGES) | {"verification_policy"} == set(Offer.__struct_fields__)
