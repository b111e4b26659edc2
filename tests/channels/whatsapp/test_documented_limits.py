"""The check against WhatsApp's documented limits finds what WhatsApp would refuse."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.channels.whatsapp import render
from placet.testing.platforms import sample_card, sample_closure
from tests.channels.whatsapp.cloud_api import find_formatting
from tests.channels.whatsapp.documented_limits import (
    TEMPLATE_BODY,
    TEMPLATE_WORDS,
    find_violations,
    is_linkable,
)

Message = dict[str, Any]
ROOT = Path(__file__).parents[3]


def buttons() -> Message:
    return render.build_message(sample_card("escalation"))


def link() -> Message:
    return render.build_message(sample_card("input"))


def text() -> Message:
    return render.build_follow_up(sample_card(), sample_closure())


def template() -> Message:
    return render.build_template_message(sample_card(), name="placet_question", language="en")


def parameters(message: Message) -> list[dict[str, str]]:
    found: list[dict[str, str]] = message["template"]["components"][0]["parameters"]
    return found


def replies(message: Message) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = message["interactive"]["action"]["buttons"]
    return found


@pytest.mark.parametrize("make", [buttons, link, text, template])
def test_our_messages_have_no_violations(make: Callable[[], Message]):
    assert find_violations(make()) == []


@pytest.mark.parametrize(
    ("make", "spoil", "words"),
    [
        (text, lambda one: one["text"].update(body="x" * 4097), "too long"),
        (text, lambda one: one["text"].update(body=" \n"), "empty"),
        (text, lambda one: one["text"].update(preview_url=True), "preview"),
        (text, lambda one: one.update(type="image"), "no kind of message"),
        (buttons, lambda one: one["interactive"]["body"].update(text="😀" * 513), "body is too long"),
        (buttons, lambda one: one["interactive"]["header"].update(text="x" * 61), "header is too long"),
        (buttons, lambda one: one["interactive"]["footer"].update(text="x" * 61), "footer is too long"),
        (buttons, lambda one: one["interactive"].update(type="list"), "no kind of interactive"),
        (buttons, lambda one: replies(one).append(replies(one)[0]), "too many"),
        (buttons, lambda one: replies(one).clear(), "no buttons"),
        (buttons, lambda one: replies(one)[0]["reply"].update(title="x" * 21), "title is too long"),
        (buttons, lambda one: replies(one)[0]["reply"].update(id="x" * 257), "id is too long"),
        (buttons, lambda one: replies(one)[0]["reply"].update(title="Skip"), "same title"),
        (buttons, lambda one: replies(one)[0].update(type="url"), "stand alone"),
        (
            link,
            lambda one: one["interactive"]["action"]["parameters"].update(url="http://localhost/"),
            "none that a button takes",
        ),
        (
            link,
            lambda one: one["interactive"]["action"]["parameters"].update(display_text="x" * 21),
            "label is too long",
        ),
        (template, lambda one: parameters(one)[0].update(text="two\nlines"), "line breaks"),
        (template, lambda one: parameters(one)[0].update(text="far      apart"), "many spaces"),
        (template, lambda one: parameters(one)[1].update(text=""), "empty"),
        (template, lambda one: parameters(one)[1].update(text="x" * 1000), "too long"),
        (template, lambda one: one["template"].update(name=""), "no name"),
    ],
)
def test_violations_are_found(make: Callable[[], Message], spoil: Callable[[Message], None], words: str):
    message = make()
    spoil(message)
    assert any(words in found for found in find_violations(message))


def test_the_template_of_the_docs_has_room_for_all_that_is_put_into_it():
    page = (ROOT / "docs" / "howto" / "whatsapp.md").read_text("utf-8")
    (words,) = find_text_blocks("{{3}}", page)
    own = len(re.sub(r"\{\{[123]\}\}", "", words))
    assert own <= TEMPLATE_WORDS
    assert not re.search(r"^\{\{|\}\}$", words.strip())
    assert own + sum(render.TEMPLATE_LIMITS.values()) <= TEMPLATE_BODY


def find_text_blocks(sign: str, page: str) -> list[str]:
    return [block for block in re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL) if sign in block]


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://acme.example/review?token=1", True),
        ("http://acme.example/", False),
        ("https://localhost/", False),
        ("https://acme.example/a b", False),
        ("https://acme.example/ü", False),
        (f"https://acme.example/{'x' * 2048}", False),
        ("https://[acme", False),
        ("javascript:alert(1)", False),
    ],
)
def test_only_links_that_a_button_takes_are_put_on_one(url: str, fits: bool):
    assert is_linkable(url) == fits


@pytest.mark.parametrize(
    "written",
    [
        "*bold*",
        "a *bold move* b",
        "_it_",
        "__init__",
        "~gone~",
        "`code`",
        "```\nblock\n```",
        "> quoted",
        "*_both_*",
    ],
)
def test_markup_is_escaped(written: str):
    assert find_formatting(written)
    assert find_formatting(render.defuse_markup(written)) == []


@pytest.mark.parametrize(
    "written", ["2 * 3 * 4", "snake_case_name", "a*b*c", "~/notes", "x > y", "5 * 3", "*"]
)
def test_plain_text_is_not_escaped(written: str):
    assert render.defuse_markup(written) == written
