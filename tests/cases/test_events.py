"""The chain of a case's events: what it proves, and what erasure leaves of it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import asdict, replace

from placet.cases.case import Case
from placet.cases.commands import Erase, Link, PassOn, Respond, View
from placet.cases.events import EVENT_TYPES, Event, find_broken_link
from placet.cases.machine import apply
from tests.cases.orders import ORDERS, fresh, in_time


@pytest.fixture
def history() -> tuple[Case, list[Event]]:
    """A case that was seen, passed on, answered, followed up."""
    case, events = fresh()
    for command in (View, PassOn, Respond, Link):
        step = apply(case, ORDERS[command], now=in_time(case), salt="grain")
        case, events = step.case, [*events, *step.events]
    return case, events


def flipped(value: object) -> object:
    """The same value with one bit or one microsecond of it changed."""
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:] if value else "0"
    if isinstance(value, int):
        return value ^ 1
    return value + timedelta(microseconds=1)  # type: ignore[operator]


def test_an_untouched_chain_holds(history: tuple[Case, list[Event]]) -> None:
    case, events = history
    assert find_broken_link(events) is None
    assert find_broken_link(events, head=case.chain) is None
    assert find_broken_link([]) is None


@pytest.mark.parametrize("field", Event.__struct_fields__)
def test_a_flipped_bit_in_any_field_is_found(history: tuple[Case, list[Event]], field: str) -> None:
    case, events = history
    for place, event in enumerate(events):
        forged = replace(event, **{field: flipped(asdict(event)[field])})
        altered = [*events[:place], forged, *events[place + 1 :]]
        assert find_broken_link(altered, head=case.chain) in (place + 1, place + 2)


def test_every_byte_of_the_data_counts(history: tuple[Case, list[Event]]) -> None:
    _, events = history
    data = events[-1].data or b""
    for place in range(len(data)):
        altered = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert find_broken_link([*events[:-1], replace(events[-1], data=altered)]) == len(events)


def test_a_forger_who_recomputes_one_digest_breaks_the_next_link(
    history: tuple[Case, list[Event]],
) -> None:
    _, events = history
    other, _ = fresh()
    substitute = apply(other, ORDERS[View], now=in_time(other), salt="grain").events[0]
    assert find_broken_link([events[0], substitute, *events[2:]]) == 2


@pytest.mark.parametrize(
    "tamper",
    [
        lambda events: [events[1], events[0], *events[2:]],
        lambda events: [*events[:2], events[3], events[2], *events[4:]],
        lambda events: events[1:],
        lambda events: [*events[:2], *events[3:]],
        lambda events: [*events[:2], events[1], *events[2:]],
    ],
    ids=["swapped at the start", "swapped inside", "first dropped", "one dropped", "one doubled"],
)
def test_reordering_dropping_and_repeating_are_found(
    history: tuple[Case, list[Event]], tamper: Callable[[list[Event]], list[Event]]
) -> None:
    assert find_broken_link(tamper(history[1])) is not None


def test_a_cut_off_end_is_found_by_the_head_that_the_case_keeps(history: tuple[Case, list[Event]]) -> None:
    case, events = history
    assert find_broken_link(events[:-1]) is None
    assert find_broken_link(events[:-1], head=case.chain) == len(events)
    assert find_broken_link([], head=case.chain) == 1


def test_another_cases_chain_is_not_this_ones(history: tuple[Case, list[Event]]) -> None:
    case, _ = history
    _, foreign = fresh()
    assert find_broken_link(foreign) is None
    assert find_broken_link(foreign, head=case.chain) == len(foreign) + 1


def test_the_chain_holds_without_the_data_and_its_salt(history: tuple[Case, list[Event]]) -> None:
    case, events = history
    step = apply(case, ORDERS[Erase], now=in_time(case), salt="grain")
    bare = [replace(event, data=None, salt=None) for event in events]
    assert find_broken_link([*bare, *step.events], head=step.case.chain) is None


def test_erased_data_cannot_be_guessed_back_without_its_salt(history: tuple[Case, list[Event]]) -> None:
    """What stays of erased data is a digest over the salt too: equal answers leave different traces."""
    case, _ = fresh()
    first = apply(case, ORDERS[Respond], now=in_time(case), salt="grain").events[0]
    second = apply(case, ORDERS[Respond], now=in_time(case), salt="other").events[0]
    assert first.data == second.data
    assert first.data_digest != second.data_digest


def test_erased_events_are_still_held_to_their_names_and_times(history: tuple[Case, list[Event]]) -> None:
    _, events = history
    bare = [replace(event, data=None, salt=None) for event in events]
    assert find_broken_link([*bare[:3], replace(bare[3], actor="someone else"), *bare[4:]]) == 4


def test_every_event_that_the_machine_reports_has_a_known_name(history: tuple[Case, list[Event]]) -> None:
    assert {event.type for event in history[1]} <= set(EVENT_TYPES)
