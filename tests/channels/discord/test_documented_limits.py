"""The check against Discord's documented limits finds what breaks them."""

from typing import Any

import pytest

from placet.channels.discord import render
from tests.channels.discord import documented_limits

LINK = {"type": 2, "style": 5, "label": "Open", "url": "https://acme.example/"}
PRESS = {"type": 2, "style": 2, "label": "Yes", "custom_id": "1"}


def body(content: str = "hello", *buttons: dict[str, Any], rows: int = 1, **changes: Any) -> dict[str, Any]:
    components = [{"type": 1, "components": list(buttons)}] * rows if buttons else []
    safe = {"flags": 4, "allowed_mentions": {"parse": []}}
    return {"content": content, "components": components, **safe, **changes}


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (body(" "), "there is no text"),
        (body("x" * 2001), "the text is too long"),
        (body("🤖" * 1001), "the text is too long"),
        (body(allowed_mentions={"parse": ["everyone"]}), "people could be mentioned"),
        (body(flags=64), "a preview is fetched"),
        (body("x", LINK, rows=6), "too many rows"),
        (body("x", *[LINK] * 6), "a row has no button, or too many"),
        (body("x", PRESS, PRESS), "two buttons are the same"),
        (body("x", {**PRESS, "style": 9}), "this is no button"),
        (body("x", {**PRESS, "label": "x" * 81}), "a button's label is empty or too long"),
        (body("x", {**PRESS, "label": ""}), "a button's label is empty or too long"),
        (body("x", {**PRESS, "custom_id": "x" * 101}), "a button's id is empty or too long"),
        (body("x", {**PRESS, "custom_id": ""}), "a button's id is empty or too long"),
        (body("x", {**LINK, "custom_id": "1"}), "a button needs either a link or an id"),
        (body("x", {**PRESS, "style": 5}), "a button needs either a link or an id"),
        (body("x", {**LINK, "url": f"https://acme.example/{'x' * 500}"}), "a button's link is none"),
        (body("x", {**LINK, "url": "http://localhost:1/"}), "a button's link is none that Discord takes"),
    ],
)
def test_what_discord_would_refuse_is_found(broken: dict[str, Any], found: str):
    assert [one for one in documented_limits.find_violations(broken) if one.startswith(found)]


def test_what_discord_takes_passes():
    buttons = [{**PRESS, "label": "x" * 80, "custom_id": f"{n:0100}"} for n in range(4)]
    assert documented_limits.find_violations(body("x" * 2000, *buttons, LINK)) == []


def test_markup_is_escaped_so_that_it_reads_as_written():
    assert render.escape("**[a](https://b)** <@1> @here") == (r"\*\*\[a\]\(https\://b\)\*\* \<\@1\> \@here")
