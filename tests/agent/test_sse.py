"""Parsing event streams that arrive in arbitrary chunks."""

from itertools import pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.sse import MAX_EVENT_BYTES, EventReader, ServerEvent

STREAM = b"retry: 2000\r\n\r\n: still here\n\nid: 1\revent: review.opened\rdata: {}\r\rdata: a\ndata: b\n\n"
EVENTS = [
    ServerEvent(name="review.opened", data="{}", id="1"),
    ServerEvent(name="message", data="a\nb", id="1"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_stream_split_into_any_chunks_gives_the_same_events(cuts: list[int]) -> None:
    reader, at = EventReader(), [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(at)]
    assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS


def test_long_event_in_single_bytes_is_parsed_in_linear_time() -> None:
    """A reader that scans everything received so far again for each byte takes minutes."""
    reader = EventReader()
    long = b"data: " + b"x" * (MAX_EVENT_BYTES - 1000)
    for number in range(len(long)):
        assert reader.feed(long[number : number + 1]) == []
    (event,) = reader.feed(b"\n\n")
    assert len(event.data) == MAX_EVENT_BYTES - 1000


@pytest.mark.parametrize("piece", [b"x" * 1000, b"data: x\n" * 100, b":\n" * 500])
def test_endless_event_is_refused(piece: bytes) -> None:
    pieces = map(EventReader().feed, repeat(piece, MAX_EVENT_BYTES // 100))
    with pytest.raises(ValueError, match="too long"):
        list(pieces)
