"""The states of a case as a poll reports them."""

import msgspec
import pytest

from placet.protocol.poll import TERMINAL, PollResponse, Progress, RespondedBy, Status
from placet.testing.clock import DAYBREAK


def test_six_states_of_which_three_are_final() -> None:
    assert [status.value for status in Status] == [
        "pending",
        "opened",
        "in_progress",
        "completed",
        "expired",
        "cancelled",
    ]
    assert {status for status in Status if status.terminal} == TERMINAL
    assert not Status.IN_PROGRESS.terminal


def test_unknown_values_are_omitted() -> None:
    response = PollResponse(status="pending", case_id="review_1", created_at=DAYBREAK)
    assert msgspec.json.decode(msgspec.json.encode(response)) == {
        "status": "pending",
        "case_id": "review_1",
        "created_at": "2026-01-01T06:00:00Z",
    }
    assert msgspec.to_builtins(RespondedBy(name="Ada")) == {"name": "Ada"}
    assert msgspec.to_builtins(Progress(completed_fields=0)) == {"completed_fields": 0}


def test_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="approved"):
        Status("approved")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"status":"approved","case_id":"r","created_at":"2026-01-01T06:00:00Z"}', type=PollResponse
        )
