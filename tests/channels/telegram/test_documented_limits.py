"""The check against Telegram's documented limits finds what breaks them."""

import pytest

from tests.channels.telegram import documented_limits

LINK = {"text": "Open", "url": "https://acme.example/"}


def body(text: str = "hello", *buttons: dict[str, str], rows: int = 1) -> dict:
    keyboard = [list(buttons)] * rows if buttons else []
    return {"text": text, "reply_markup": {"inline_keyboard": keyboard}}


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (body(" "), "there is no text"),
        (body("x" * 4097), "the text is too long"),
        (body("🤖" * 2049), "the text is too long"),
        (body("<b>x"), "the markup is broken"),
        (body("</b>x"), "the markup is broken"),
        (body("<b><i>x</b></i>"), "the markup is broken"),
        (body("<u>x</u>"), "the markup is broken"),
        (body("<b onclick='x'>x</b>"), "the markup is broken"),
        (body("x<!-- y -->"), "the markup is broken"),
        (body("x", {"text": "", "callback_data": "1"}), "a button's text is empty or too long"),
        (body("x", {"text": "x" * 65, "callback_data": "1"}), "a button's text is empty or too long"),
        (body("x", {"text": "x", "callback_data": ""}), "a button's data is empty or too long"),
        (body("x", {"text": "x", "callback_data": "é" * 33}), "a button's data is empty or too long"),
        (body("x", {"text": "x"}), "a button needs either a link or data"),
        (body("x", {**LINK, "callback_data": "1"}), "a button needs either a link or data"),
        (body("x", {**LINK, "url": "http://localhost:1/"}), "a button's link is none that Telegram takes"),
        (body("x", {**LINK, "url": "javascript:alert(1.0)"}), "a button's link is none that Telegram takes"),
        (body("x", {**LINK, "url": "https://[bad.example"}), "a button's link is none that Telegram takes"),
        (body("x", *[LINK] * 9), "a row has no button, or too many"),
        (body("x", *[LINK] * 8, rows=13), "too many buttons"),
    ],
)
def test_what_telegram_would_refuse_is_found(broken: dict, found: str):
    assert found in documented_limits.find_violations(broken)


def test_what_telegram_takes_passes():
    at_the_limit = body("<b>" + "x" * 4096 + "</b>", *[{"text": "x" * 64, "callback_data": "x" * 64}] * 8)
    assert documented_limits.find_violations(at_the_limit) == []
