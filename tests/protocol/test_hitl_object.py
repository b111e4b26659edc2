"""The `hitl` object: what always travels and what only when it is there."""

import msgspec
import pytest

from placet.protocol.hitl_object import HitlObject, HumanInputRequired
from placet.testing.clock import DAYBREAK

BARE = HitlObject(
    spec_version="0.9",
    case_id="review_1",
    review_url="https://placet.example/review/review_1?token=t",
    poll_url="https://placet.example/v1/reviews/review_1/status",
    callback_url=None,
    type="approval",
    prompt="Go?",
    timeout="24h",
    default_action="skip",
    created_at=DAYBREAK,
    expires_at=DAYBREAK,
)


def test_the_body_of_a_202_has_a_status_a_message_and_the_object() -> None:
    body = msgspec.to_builtins(HumanInputRequired(message="Please decide.", hitl=BARE))
    assert list(body) == ["status", "message", "hitl"]
    assert body["status"] == "human_input_required"


def test_no_callback_is_said_and_other_absent_fields_are_not() -> None:
    """Spec 6: callback_url is echoed, otherwise null."""
    bare = msgspec.to_builtins(BARE)
    assert bare["callback_url"] is None
    assert set(bare) == {
        "spec_version",
        "case_id",
        "review_url",
        "poll_url",
        "callback_url",
        "type",
        "prompt",
        "timeout",
        "default_action",
        "created_at",
        "expires_at",
    }


def test_no_inline_actions_is_not_the_same_as_none_allowed() -> None:
    some = msgspec.structs.replace(BARE, inline_actions=())
    assert msgspec.to_builtins(some)["inline_actions"] == ()
    assert "inline_actions" not in msgspec.to_builtins(BARE)


def test_a_moment_without_a_time_zone_is_no_moment() -> None:
    raw = msgspec.to_builtins(BARE) | {"expires_at": "2026-01-02T06:00:00"}
    with pytest.raises(msgspec.ValidationError, match="expires_at"):
        msgspec.convert(raw, HitlObject)
