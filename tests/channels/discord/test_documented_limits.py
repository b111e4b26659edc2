"""The check against Discord's documented limits finds what breaks them."""

from typing import Any

import pytest

from placet.channels.discord import render
from tests.channels.discord import documented_limits

LINK = {"type": 2, "style": 5, "label": "Open", "url": "https://acme.example/"}
PRESS = {"type": 2, "style": 2, "label": "Yes", "custom_id": "1"}


def build_body(
    content: str = "hello", *buttons: dict[str, Any], rows: int = 1, **changes: Any
) -> dict[str, Any]:
    components = [{"type": 1, "components": list(buttons)}] * rows if buttons else []
    safe = {"flags": 4, "allowed_mentions": {"parse": []}}
    return {"content": content, "components": components, **safe, **changes}


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (build_body(" "), "there is no text"),
        (build_body("x" * 2001), "the text is too long"),
        (build_body("🤖" * 1001), "the text is too long"),
        (build_body(allowed_mentions={"parse": ["everyone"]}), "people could be mentioned"),
        (build_body(flags=64), "a preview is fetched"),
        (build_body("x", LINK, rows=6), "too many rows"),
        (build_body("x", *[LINK] * 6), "a row has no button, or too many"),
        (build_body("x", PRESS, PRESS), "two buttons are the same"),
        (build_body("x", {**PRESS, "style": 9}), "this is no button"),
        (build_body("x", {**PRESS, "label": "x" * 81}), "a button's label is empty or too long"),
        (build_body("x", {**PRESS, "label": ""}), "a button's label is empty or too long"),
        (build_body("x", {**PRESS, "custom_id": "x" * 101}), "a button's id is empty or too long"),
        (build_body("x", {**PRESS, "custom_id": ""}), "a button's id is empty or too long"),
        (build_body("x", {**LINK, "custom_id": "1"}), "a button needs either a link or an id"),
        (build_body("x", {**PRESS, "style": 5}), "a button needs either a link or an id"),
        (build_body("x", {**LINK, "url": f"https://acme.example/{'x' * 500}"}), "a button's link is none"),
        (
            build_body("x", {**LINK, "url": "http://localhost:1/"}),
            "a button's link is none that Discord takes",
        ),
    ],
)
def test_violations_are_found(broken: dict[str, Any], found: str):
    assert [one for one in documented_limits.find_violations(broken) if one.startswith(found)]


def test_message_at_the_limits_passes():
    buttons = [{**PRESS, "label": "x" * 80, "custom_id": f"{n:0100}"} for n in range(4)]
    assert documented_limits.find_violations(build_body("x" * 2000, *buttons, LINK)) == []


def test_markup_is_escaped_so_that_it_reads_as_written():
    assert render.escape("**[a](https://b)** <@1> @here") == (r"\*\*\[a\]\(https\://b\)\*\* \<\@1\> \@here")
