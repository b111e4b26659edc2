"""The body of an inline submit: what it must say, and what it may not."""

from typing import Any

import msgspec
import pytest

from placet.protocol.inline_submit import PLATFORMS, SUBMITTED_VIA, SubmitRequest

PRESSED: dict[str, Any] = {
    "action": "confirm",
    "submitted_via": "telegram_inline_button",
    "submitted_by": {"platform": "telegram", "platform_user_id": "42"},
}


def read(body: dict[str, Any]) -> SubmitRequest:
    return msgspec.json.decode(msgspec.json.encode(body), type=SubmitRequest)


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in PRESSED.items() if key not in keys}


def by(**changes: Any) -> dict[str, Any]:
    return PRESSED | {"submitted_by": PRESSED["submitted_by"] | changes}


def test_the_shortest_body_says_what_where_and_who() -> None:
    request = read(PRESSED)
    assert (request.action, request.data, request.verification_evidence) == ("confirm", {}, ())
    assert request.submitted_by.display_name is None


@pytest.mark.parametrize("via", [*SUBMITTED_VIA, "x-my-console"])
def test_known_and_custom_channels_are_taken(via: str) -> None:
    assert read(PRESSED | {"submitted_via": via}).submitted_via == via


@pytest.mark.parametrize("platform", [*PLATFORMS, "x-my-console"])
def test_known_and_custom_platforms_are_taken(platform: str) -> None:
    assert read(by(platform=platform)).submitted_by.platform == platform


@pytest.mark.parametrize(
    "body",
    [
        without("action"),
        without("submitted_via"),
        without("submitted_by"),
        PRESSED | {"action": ""},
        PRESSED | {"action": "a" * 101},
        PRESSED | {"action": ["confirm"]},
        PRESSED | {"data": "yes"},
        PRESSED | {"data": None},
        PRESSED | {"data": []},
        PRESSED | {"submitted_via": "carrier_pigeon"},
        PRESSED | {"submitted_via": "x-"},
        PRESSED | {"submitted_via": "telegram_inline_button\n"},
        PRESSED | {"submitted_via": "x-\u0000"},
        PRESSED | {"submitted_via": "x-" + "y" * 100},
        PRESSED | {"submitted_by": "telegram:42"},
        by(platform="pager"),
        by(platform="telegram\n"),
        by(platform="x-a\rb"),
        by(platform_user_id=""),
        by(platform_user_id=42),
        by(platform_user_id="4\u00002"),
        by(display_name="Mallory\nanswered: approve"),
        by(display_name="n" * 501),
        by(verified=True),
        PRESSED | {"responded_by": {"name": "The Chairman"}},
        PRESSED | {"case_id": "review_1"},
        PRESSED | {"verification_evidence": {}},
        PRESSED | {"verification_evidence": [{}]},
        PRESSED | {"verification_evidence": [{"proof_type": "proof_of_human"}] * 21},
    ],
    ids=lambda body: str({key: body[key] for key in body if body[key] != PRESSED.get(key)} or "missing")[:70],
)
def test_a_body_that_says_too_little_or_too_much_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(body)
