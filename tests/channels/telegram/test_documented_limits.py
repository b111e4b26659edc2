"""The check against Telegram's documented limits finds what breaks them."""

import pytest

from tests.channels.telegram import documented_limits

LINK = {"text": "Open", "url": "https://acme.example/"}


def build_body(text: str = "hello", *buttons: dict[str, str], rows: int = 1) -> dict:
    keyboard = [list(buttons)] * rows if buttons else []
    return {"text": text, "reply_markup": {"inline_keyboard": keyboard}}


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (build_body(" "), "there is no text"),
        (build_body("x" * 4097), "the text is too long"),
        (build_body("🤖" * 2049), "the text is too long"),
        (build_body("<b>x"), "the markup is broken"),
        (build_body("</b>x"), "the markup is broken"),
        (build_body("<b><i>x</b></i>"), "the markup is broken"),
        (build_body("<u>x</u>"), "the markup is broken"),
        (build_body("<b onclick='x'>x</b>"), "the markup is broken"),
        (build_body("x<!-- y -->"), "the markup is broken"),
        (build_body("x", {"text": "", "callback_data": "1"}), "a button's text is empty or too long"),
        (build_body("x", {"text": "x" * 65, "callback_data": "1"}), "a button's text is empty or too long"),
        (build_body("x", {"text": "x", "callback_data": ""}), "a button's data is empty or too long"),
        (build_body("x", {"text": "x", "callback_data": "é" * 33}), "a button's data is empty or too long"),
        (build_body("x", {"text": "x"}), "a button needs either a link or data"),
        (build_body("x", {**LINK, "callback_data": "1"}), "a button needs either a link or data"),
        (
            build_body("x", {**LINK, "url": "http://localhost:1/"}),
            "a button's link is none that Telegram takes",
        ),
        (
            build_body("x", {**LINK, "url": "javascript:alert(1.0)"}),
            "a button's link is none that Telegram takes",
        ),
        (
            build_body("x", {**LINK, "url": "https://[bad.example"}),
            "a button's link is none that Telegram takes",
        ),
        (build_body("x", *[LINK] * 9), "a row has no button, or too many"),
        (build_body("x", *[LINK] * 8, rows=13), "too many buttons"),
    ],
)
def test_violations_are_found(broken: dict, found: str):
    assert found in documented_limits.find_violations(broken)


def test_message_at_the_limits_passes():
    at_the_limit = build_body(
        "<b>" + "x" * 4096 + "</b>", *[{"text": "x" * 64, "callback_data": "x" * 64}] * 8
    )
    assert documented_limits.find_violations(at_the_limit) == []
