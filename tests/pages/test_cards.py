"""Cards: each detail in its place, nothing lost, nothing that runs."""

from typing import Any

import pytest

from placet.pages.content import ValueRenderer
from placet.pages.language import ENGLISH
from placet.pages.option_cards import columns_to_sort, draw_cards
from tests.pages.payloads import PAYLOADS

CONTENT = ValueRenderer(ENGLISH)
DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)


def card(**details: Any) -> dict[str, Any]:
    return {"id": "a", "title": "A", "picked": False, "details": details}


def drawn(*cards: dict[str, Any], **more: Any) -> str:
    return "".join(draw_cards(cards, name="selected", type="checkbox", content=CONTENT, **more))


def test_a_card_without_details_is_its_title() -> None:
    assert drawn(card()) == (
        '<div class="card"><input type="checkbox" name="selected" value="a" id="o-1">'
        '<label for="o-1"><bdi>A</bdi></label></div>\n'
    )
    assert ' checked id="o-1"' in drawn({**card(), "picked": True})


def test_details_stand_in_their_places_whatever_their_order() -> None:
    html = drawn(
        card(seats=4, summary="Bright", price="5 EUR", tags=["New"], recommended=True, image=DOT),
        advice="They like it",
    )
    places = [html.index(part) for part in ("<img", "They like it", "New</li>", "Bright", "5 EUR", "Seats")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("badges", [1, 2]),
        ("badges", ["x" * 41]),
        ("tags", {"a": "b"}),
        ("description", ["one", "two"]),
        ("image", "https://elsewhere.example/cat.png"),
        ("image_url", "javascript:alert(1)"),
        ("thumbnail", 7),
        ("recommended", 3),
        ("price", {"net": 5}),
        ("price", ""),
    ],
)
def test_what_does_not_fit_its_place_is_a_fact(name: str, value: Any) -> None:
    html = drawn(card(**{name: value}))
    assert '<dl class="facts"><div' in html
    assert "<dt><bdi>" in html
    assert not any(mark in html for mark in ("<img", "badges", "advice", 'class="price"', "lead"))


def test_a_service_that_does_not_recommend_says_nothing() -> None:
    assert "more" not in drawn(card(recommended=False))
    assert "So near" in drawn(card(recommended="So near"), advice="They like it")


def test_badges_from_several_details_stand_in_one_row() -> None:
    html = drawn(card(badge="New", tags=["Quiet", "Light"]))
    assert '<ul class="badges"><li>New</li><li>Quiet</li><li>Light</li></ul>' in html


def test_a_fact_too_long_for_one_card_takes_a_line_on_all() -> None:
    html = drawn(card(to="a@example.org", size="5"), card(to="somebody.else@example.org", size="6"))
    assert html.count('<div class="long"><dt><bdi>To') == 2
    assert html.count("<div><dt><bdi>Size") == 2


def test_a_number_keeps_its_exact_value_for_sorting() -> None:
    assert '<data value="1204567">' in drawn(card(copies=1204567))
    assert "<data" not in drawn(card(step_free=True))


def test_a_missing_tick_is_told_on_its_card_only() -> None:
    html = drawn({**card(), "picked": True}, card(), missing="Not ticked yet")
    assert html.count("Not ticked yet") == 1


def test_cards_are_sorted_by_what_most_of_them_have() -> None:
    cards = [card(price=5, city="Ghent", tags=["x"], more={"a": 1}), card(price=7), card(price=9, odd="x")]
    assert columns_to_sort(cards) == ["Price"]
    assert columns_to_sort([card(**{f"column_{number}": number for number in range(20)})])[-1] == "Column 7"


def test_nothing_that_was_sent_becomes_markup() -> None:
    names = ("badges", "image", "description", "recommended", "price", "anything")
    for payload in PAYLOADS:
        html = drawn(
            {"id": payload, "title": payload, "picked": True, "details": dict.fromkeys(names, payload)},
            card(**{payload: payload}),
        )
        lowered = html.lower()
        for mark in ("<script", "<svg", "<iframe", "<style", "<math", "<marquee", "<img", " onerror=x"):
            assert mark not in lowered, payload


def test_a_place_that_stays_empty_is_not_told() -> None:
    assert drawn(card(badges=[], recommended=False, image=None, description="")) == drawn(card())
    assert "nothing" in drawn(card(colour=""))


def test_odd_addresses_in_a_description_are_pointed_out() -> None:
    assert "imitates letters" in drawn(card(description="Pay at https://аррlе.com/now"))
    assert "link-warning" not in drawn(card(description="Pay at https://example.com/now"))
