"""The sentence about an outcome, which is the last line of a command that waits."""

from datetime import UTC, datetime
from typing import Any

import pytest

from placet.agent import Cancelled, Decided
from placet.channels.texts import format_time
from placet.cli.case_waiting import describe_outcome

AT = "2026-03-02T09:15:00+01:00"


def test_decision_shows_when_it_was_made_and_not_when_it_was_read() -> None:
    outcome = Decided(case_id="1", action="approve", responded_by={"name": "Ada"}, raw={"completed_at": AT})
    assert describe_outcome(outcome) == "Approved by Ada, Monday 2 March 2026, 08:15 UTC."


def test_withdrawn_case_shows_when_it_was_withdrawn() -> None:
    outcome = Cancelled(case_id="1", reason="Not needed.", raw={"cancelled_at": AT, "completed_at": "no"})
    assert describe_outcome(outcome) == "Withdrawn: Not needed. (Monday 2 March 2026, 08:15 UTC)."


@pytest.mark.parametrize("at", [None, 0, "", "soon", "2026-13-01", ["2026-03-02"], "9" * 10_000])
def test_service_without_a_readable_time_gets_the_current_one(at: Any) -> None:
    before = datetime.now(UTC)
    sentence = describe_outcome(Decided(case_id="1", action="approve", raw={"completed_at": at}))
    expected = {f"Approved, {format_time(moment)}." for moment in (before, datetime.now(UTC))}
    assert sentence in expected


def test_invalid_signature_is_named_in_the_sentence() -> None:
    outcome = Decided(case_id="1", action="approve", verified=False, raw={"completed_at": AT})
    assert describe_outcome(outcome).endswith("But its signature is invalid: do not act on it.")
