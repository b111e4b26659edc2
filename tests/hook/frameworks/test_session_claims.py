"""One run at a time for sessions that a framework stores itself."""

from datetime import timedelta

import pytest

from placet.errors import ThreadBusy
from placet.hook import Gate, HumanInTheLoopHook, MemorySaver
from placet.hook.frameworks.session_claims import SessionClaims
from placet.testing.clock import FakeClock


def make_claims(saver: MemorySaver) -> SessionClaims:
    return SessionClaims(Gate([HumanInTheLoopHook({"pay": True})], saver))


def test_a_session_is_held_by_one_run_at_a_time() -> None:
    saver = MemorySaver()
    mine, other = make_claims(saver), make_claims(saver)
    with mine.hold("s"):
        with pytest.raises(ThreadBusy), other.hold("s"):
            pass
        with other.hold("another"):
            pass
    with other.hold("s"):
        pass


def test_a_run_that_fails_gives_its_session_back() -> None:
    claims = make_claims(MemorySaver())
    with pytest.raises(ValueError, match="no"), claims.hold("s"):
        raise ValueError("no")
    with claims.hold("s"):
        pass


def test_the_session_of_a_dead_process_is_free_when_its_lease_has_ended() -> None:
    clock = FakeClock()
    saver = MemorySaver(clock=clock)
    dead = make_claims(saver).hold("s")
    dead.__enter__()
    with pytest.raises(ThreadBusy), make_claims(saver).hold("s"):
        pass
    clock.advance(timedelta(minutes=6))
    with make_claims(saver).hold("s"):
        pass


@pytest.mark.anyio
async def test_an_async_run_holds_its_session_too() -> None:
    saver = MemorySaver()
    async with make_claims(saver).ahold("s"):
        with pytest.raises(ThreadBusy):
            async with make_claims(saver).ahold("s"):
                pass
