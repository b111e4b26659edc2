"""The table of Slack's documented limits agrees with slack_sdk's models, and refuses what they refuse."""

from typing import Any

import pytest
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ContextBlock,
    HeaderBlock,
    SectionBlock,
)

from placet.channels.slack import render
from tests.channels.slack import documented_limits


def plain_text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def button(**changes: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": "a", "text": plain_text("Yes"), "value": "v"} | changes


def header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": plain_text(text)}


def section(**parts: Any) -> dict[str, Any]:
    return {"type": "section", **parts}


def actions(*buttons: dict[str, Any]) -> dict[str, Any]:
    return {"type": "actions", "elements": list(buttons)}


def context(*texts: str) -> dict[str, Any]:
    return {"type": "context", "elements": [plain_text(text) for text in texts]}


def make_buttons(count: int) -> list[dict[str, Any]]:
    return [button(action_id=f"a{number}") for number in range(count)]


FITS = {
    "heading": header("x" * 150),
    "text": section(text=plain_text("x" * 3000)),
    "fields": section(fields=[plain_text("x")] * 10),
    "context": context(*["x"] * 10),
    "buttons": actions(*make_buttons(25)),
    "label": actions(button(text=plain_text("x" * 75))),
    "value": actions(button(value="x" * 2000)),
    "id": actions(button(action_id="x" * 255)),
    "link": actions(button(url="https://x.example/" + "x" * 2900)),
}
REFUSED_BY_BOTH = {
    "heading": header("x" * 151),
    "text": section(text=plain_text("x" * 3001)),
    "fields": section(fields=[plain_text("x")] * 11),
    "empty section": section(),
    "context": context(*["x"] * 11),
    "buttons": actions(*make_buttons(26)),
    "label": actions(button(text=plain_text("x" * 76))),
    "value": actions(button(value="x" * 2001)),
    "id": actions(button(action_id="x" * 256)),
    "link": actions(button(url="https://x.example/" + "x" * 3000)),
}
REFUSED_BY_US = {
    "empty heading": header(" "),
    "empty text": section(text=plain_text("\n")),
    "empty field": section(fields=[plain_text("")]),
    "empty context": context(""),
    "no context": context(),
    "no buttons": actions(),
    "same id": actions(button(), button()),
    "empty label": actions(button(text=plain_text(""))),
    "units": header("🤖" * 76),
}


def parse_with_slack_sdk(block: dict[str, Any]) -> dict[str, Any] | None:
    try:
        read = Block.parse(block)
        assert read is not None
        return read.to_dict()
    except SlackObjectFormationError:
        return None


@pytest.mark.parametrize("name", FITS)
def test_valid_blocks_pass_slack_sdk(name: str):
    block = FITS[name]
    assert documented_limits.find_violations({"text": "x", "blocks": [block]}) == []
    assert parse_with_slack_sdk(block) == block


@pytest.mark.parametrize("name", REFUSED_BY_BOTH)
def test_blocks_refused_by_slack_sdk_are_violations(name: str):
    block = REFUSED_BY_BOTH[name]
    assert documented_limits.find_violations({"text": "x", "blocks": [block]})
    assert parse_with_slack_sdk(block) is None


@pytest.mark.parametrize("name", REFUSED_BY_US)
def test_blocks_refused_only_by_slack_are_violations(name: str):
    assert documented_limits.find_violations({"text": "x", "blocks": [REFUSED_BY_US[name]]})


def test_a_message_needs_a_text_and_few_enough_blocks():
    assert documented_limits.find_violations({"blocks": []})
    assert documented_limits.find_violations({"text": "x" * 4001, "blocks": []})
    assert documented_limits.find_violations({"text": "x", "blocks": [header("x")] * 51})
    assert documented_limits.find_violations({"text": "x", "blocks": [header("x")] * 50}) == []


def test_limits_equal_those_of_slack_sdk():
    assert HeaderBlock.text_max_length == documented_limits.HEADER_TEXT
    assert (
        SectionBlock.text_max_length,
        SectionBlock.fields_max_length,
    ) == (documented_limits.SECTION_TEXT, documented_limits.SECTION_FIELDS)
    assert ContextBlock.elements_max_length == documented_limits.CONTEXT_ELEMENTS
    assert ActionsBlock.elements_max_length == documented_limits.ACTION_ELEMENTS
    assert ButtonElement.text_max_length == documented_limits.BUTTON_TEXT
    assert ButtonElement.value_max_length == documented_limits.BUTTON_VALUE
    assert ButtonElement.url_max_length == documented_limits.BUTTON_URL
    assert ButtonElement.action_id_max_length == documented_limits.ACTION_ID


def test_renderer_uses_the_same_limits():
    assert (
        render.MAX_SECTION_FIELDS,
        render.MAX_ACTION_ELEMENTS,
        render.MAX_BUTTON_TEXT_LENGTH,
        render.MAX_BUTTON_URL_LENGTH,
    ) == (
        documented_limits.SECTION_FIELDS,
        documented_limits.ACTION_ELEMENTS,
        documented_limits.BUTTON_TEXT,
        documented_limits.BUTTON_URL,
    )
