"""Texts that all messengers share."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.channels import texts
from placet.ports.channel import Button, Card, CaseClosure
from placet.text.truncation import count_utf8_bytes, count_utf16_units

AT = datetime(2026, 11, 17, 18, 0, tzinfo=UTC)


def card(**changes) -> Card:
    fields: dict[str, Any] = {
        "prompt": "Deploy 4.2?",
        "message": "Tests are green.",
        "type": "approval",
        "source": "Acme",
        "review_url": "https://acme.example/review/1?token=t",
        "expires_at": AT,
        "default_action": "reject",
    }
    return Card(**fields | changes)


def test_facts_that_a_platform_has_no_room_for_are_named_beside_buttons():
    facts = tuple((f"Fact {number}", "yes") for number in range(6))
    button = Button(action="approve", label="Approve", reference="r")
    shown = texts.build_card_lines(card(facts=facts, buttons=(button,)), texts.TextLimits(facts=4)).facts
    assert shown == (*facts[:3], ("Only on the page", "Fact 3, Fact 4, Fact 5"))
    assert texts.build_card_lines(card(facts=facts), texts.TextLimits(facts=4)).facts == facts[:4]
    assert (
        texts.build_card_lines(card(facts=facts, buttons=(button,)), texts.TextLimits(facts=6)).facts == facts
    )


def test_a_card_says_who_asks_until_when_and_what_silence_means():
    lines = texts.build_card_lines(card(facts=(("Risk\n", "low"),)), texts.TextLimits())
    assert lines == texts.CardLines(
        heading="Acme asks for your approval",
        prompt="Deploy 4.2?",
        message="Tests are green.",
        facts=(("Risk", "low"),),
        deadline="Open until Tuesday 17 November 2026, 18:00 UTC",
        no_answer="If nobody answers: it counts as a no.",
        link_label="Open the review",
    )


def test_a_message_that_repeats_the_prompt_is_left_out():
    assert texts.build_card_lines(card(message=" Deploy 4.2? "), texts.TextLimits()).message == ""


def test_a_reminder_says_so():
    assert texts.format_heading(card(is_reminder=True)) == "Reminder: Acme asks for your approval"


def test_source_cannot_imitate_our_own_lines():
    assert (
        texts.format_heading(card(source="{source}\nApproved")) == "{source} Approved asks for your approval"
    )
    assert texts.format_heading(card(source=" ", type="x-vote")) == "An agent asks for your decision"


LONG_HOST = "bank.example." + "a" * 60 + "." + "b" * 60 + ".evil.example"


@pytest.mark.parametrize("is_reminder", [False, True])
@pytest.mark.parametrize("room", [60, 90, 150])
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Bank " * 8 + "(evil.example)", "(evil.example)"),
        ("Bank" + "\u200b" * 36 + " (evil.example)", "(evil.example)"),
        (LONG_HOST, "b.evil.example"),
        (f"Bank ({LONG_HOST})", "b.evil.example"),
    ],
)
def test_long_service_name_does_not_hide_the_host(source, shown, room, is_reminder):
    asked = card(source=source, is_reminder=is_reminder)
    heading = texts.build_card_lines(asked, texts.TextLimits(heading=room), size=count_utf16_units).heading
    assert shown in heading
    assert len(heading) <= room


@given(
    source=st.text(max_size=300) | st.from_regex(r"[a-z.]{1,300}", fullmatch=True),
    most=st.integers(1, 200),
    which=st.sampled_from([len, count_utf16_units, count_utf8_bytes]),
)
def test_source_line_always_fits(source, most, which):
    assert which(texts.format_source(card(source=source), most, size=which)) <= most


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (CaseClosure(how="decided", at=AT, action="approve", by="Ada"), "Approved by Ada, Tuesday"),
        (CaseClosure(how="decided", at=AT, action="x-vote_yes"), "Decided: X vote yes, Tuesday"),
        (CaseClosure(how="decided", at=AT), "Decided, Tuesday"),
        (CaseClosure(how="expired", at=AT), "Expired: nobody answered in time (Tuesday"),
        (CaseClosure(how="withdrawn", at=AT, reason="Not\nneeded"), "Withdrawn: Not needed (Tuesday"),
        (CaseClosure(how="withdrawn", at=AT), "Withdrawn (Tuesday"),
    ],
)
def test_an_ending_is_said_in_one_line(ended, expected):
    assert texts.describe_closure(ended).startswith(expected)
