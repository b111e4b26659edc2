"""What the page proposes to allow in advance, and what a person's form makes of it."""

from typing import Any

import pytest

from placet.cases.case import Offer
from placet.errors import InvalidSubmission
from placet.reviews.registry import SAMPLES

MAIL: dict[str, Any] = {
    "to": "ada@acme.example",
    "query": "SELECT * FROM t",
    "copies": 2,
    "rate": 0.5,
    "urgent": False,
    "body": "Dear Ada,\nhello",
    "tags": ["a"],
}
EXACT = {name: {"exact": value} for name, value in MAIL.items()}
ON = {"grant.1.on": "yes", "grant.1.uses": "20", "grant.1.for": "1h"}
UNTOUCHED = {
    "grant.1.like.1": "ada@acme.example",
    "grant.1.like.2": "SELECT \\* FROM t",
    "grant.1.like.3": "2",
    "grant.1.like.4": "0.5",
}


def make_offer(**changes: Any) -> Offer:
    call = {"id": "call_1", "name": "send_email", "arguments": MAIL, "high_risk": False} | changes
    return Offer(
        type="approval",
        prompt="Go?",
        message="Go?",
        context={"tool_calls": [call], "agent": "mailer"},
        actions=("approve", "edit", "reject"),
    )


def read_proposal(offer: Offer, values: dict[str, Any] | None = None) -> dict[str, Any] | None:
    (call,) = SAMPLES["tool_calls"].build_page_content(offer, values or {})["calls"]
    grant: dict[str, Any] | None = call["grant"]
    return grant


def grants(offer: Offer, decision: str = "approve", **typed: str) -> list[dict[str, Any]]:
    """What is kept of this form."""
    pairs = [("decision.1", decision), *(ON | UNTOUCHED | typed).items()]
    turn = SAMPLES["tool_calls"].handle_post(offer, "edit", pairs, {})
    assert turn.ready, turn.problems
    kept = SAMPLES["tool_calls"].check(offer, turn.action or "", turn.data or {})
    return list(kept.get("grants", []))


def pattern_field(place: int, text: str) -> dict[str, str]:
    return {f"grant.1.like.{place}": text}


def test_the_page_proposes_every_argument_as_it_is() -> None:
    grant = read_proposal(make_offer())
    assert grant is not None
    boxes = [(one["name"], one["widening"], one["like"]) for one in grant["arguments"]]
    assert boxes == [
        ("to", "text", "ada@acme.example"),
        ("query", "text", "SELECT \\* FROM t"),
        ("copies", "number", "2"),
        ("rate", "number", "0.5"),
        ("urgent", "same", None),
        ("body", "same", None),
        ("tags", "same", None),
    ]
    assert not grant["on"]


def test_a_form_that_was_left_alone_allows_exactly_the_same_call() -> None:
    assert grants(make_offer()) == [{"call_id": "call_1", "patterns": EXACT, "uses": 20, "for": "1h"}]


def test_a_person_widens_one_argument_at_a_time() -> None:
    (grant,) = grants(make_offer(), **pattern_field(1, " *@acme.example "))
    assert grant["patterns"] == EXACT | {"to": {"glob": "*@acme.example"}}
    (grant,) = grants(make_offer(), **pattern_field(2, "SELECT \\* FROM *"))
    assert grant["patterns"] == EXACT | {"query": {"glob": "SELECT \\* FROM *"}}
    (grant,) = grants(make_offer(), **pattern_field(3, "100"))
    assert grant["patterns"] == EXACT | {"copies": {"from": 0, "to": 100}}
    (grant,) = grants(make_offer(), **pattern_field(4, "2"))
    assert grant["patterns"] == EXACT | {"rate": {"from": 0.0, "to": 2.0}}


def test_nothing_is_allowed_unless_it_is_ticked() -> None:
    assert grants(make_offer(), **{"grant.1.on": ""}) == []


def test_nothing_is_allowed_beside_a_rejection() -> None:
    assert grants(make_offer(), "reject") == []


def test_an_edited_call_is_allowed_as_it_was_edited() -> None:
    (grant,) = grants(make_offer(), "edit", **{"edit.1.to": "eve@acme.example"})
    assert grant["patterns"] == EXACT | {"to": {"exact": "eve@acme.example"}}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"grant.1.uses": "0"}, "between 1 and"),
        ({"grant.1.uses": "many"}, "between 1 and"),
        ({"grant.1.uses": "９"}, "between 1 and"),
        ({"grant.1.for": "30d"}, "7 days"),
        ({"grant.1.for": "x"}, "duration"),
        (pattern_field(1, "*@other.example"), "must cover"),
        (pattern_field(1, ""), "text"),
        (pattern_field(3, "1"), "must cover"),
        (pattern_field(3, "2.5"), "number"),
        (pattern_field(3, "lots"), "number"),
        (pattern_field(3, "1e9"), "number"),
        (pattern_field(4, "nan"), "number"),
    ],
)
def test_what_cannot_be_allowed_is_said_beside_its_call(typed: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSubmission, match=told) as refused:
        grants(make_offer(), **typed)
    assert refused.value.details["fields"].keys() == {"grant.call_1"}
    assert "grant.call_1" in SAMPLES["tool_calls"].build_page_content(make_offer(), {})["labels"]


def test_a_call_of_high_risk_is_never_offered_nor_taken() -> None:
    risky = make_offer(high_risk=True)
    assert read_proposal(risky) is None
    assert grants(risky) == []
    asked = {"call_id": "call_1", "patterns": EXACT, "uses": 1, "for": "1h"}
    with pytest.raises(InvalidSubmission, match="high risk"):
        SAMPLES["tool_calls"].check(risky, "approve", {"grants": [asked]})


def test_a_call_with_a_secret_is_neither_offered_nor_taken() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "writeOnly": True}}}
    secret = make_offer(schema=schema)
    assert read_proposal(secret) is None
    assert grants(secret) == []
    asked = {"call_id": "call_1", "patterns": EXACT, "uses": 1, "for": "1h"}
    with pytest.raises(InvalidSubmission, match="secret"):
        SAMPLES["tool_calls"].check(secret, "approve", {"grants": [asked]})


def test_huge_calls_are_not_offered() -> None:
    assert read_proposal(make_offer(arguments={"text": "x" * 20_000})) is None
    assert read_proposal(make_offer(arguments={f"a{n}": n for n in range(21)})) is None


def test_what_was_typed_stands_in_the_boxes_again() -> None:
    pairs = [("decision.1", "approve"), *(ON | UNTOUCHED | pattern_field(1, "*@acme.example")).items()]
    values = SAMPLES["tool_calls"].read_draft(make_offer(), pairs, {}).values
    grant = read_proposal(make_offer(), dict(values))
    assert grant is not None
    assert (grant["on"], grant["uses"], grant["arguments"][0]["like"]) == (True, "20", "*@acme.example")
