"""Server-sent events on the wire."""

import pytest

from placet.protocol.stream import FINAL, HEARTBEAT, SPECIFIED, STREAMED, format_event, parse_last_event_id


def test_a_frame_is_id_name_and_one_line_of_data() -> None:
    assert format_event(name="review.opened", seq=7, data=b'{"case_id":"r"}') == (
        b'id: 7\nevent: review.opened\ndata: {"case_id":"r"}\n\n'
    )


def test_a_heartbeat_is_a_comment_that_no_reader_takes_for_an_event() -> None:
    assert HEARTBEAT.startswith(b":")
    assert HEARTBEAT.endswith(b"\n\n")


def test_the_six_events_of_the_specification_are_streamed_and_three_of_them_end_it() -> None:
    names = {"opened", "in_progress", "reminder", "completed", "expired", "cancelled"}
    assert {f"review.{name}" for name in names} == SPECIFIED
    assert {"review.handed_back"} == STREAMED - SPECIFIED
    assert {"review.completed", "review.expired", "review.cancelled"} == FINAL


@pytest.mark.parametrize(
    ("header", "seq"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("12", 12),
        ("999999999999999", 999_999_999_999_999),
        ("9" * 16, 0),
        ("-1", 0),
        ("+1", 0),
        ("1.5", 0),
        (" 1", 0),
        ("٣", 0),
        ("evt_init", 0),
        ("1\n2", 0),
    ],
)
def test_an_id_that_is_none_of_ours_replays_everything(header: str | None, seq: int) -> None:
    assert parse_last_event_id(header) == seq
