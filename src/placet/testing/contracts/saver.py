"""The contract suites of Saver. Subclass one, provide a fixture `open_saver`, and run it with pytest.

`open_saver(**options)` opens a saver on empty storage, with options such as `retain`. Later calls open other
savers on the same storage. If processes share the storage, subclass SharedSaverContract; `open_saver` must
then be picklable, for example a `functools.partial`.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from placet.errors import CheckpointConflict, PlacetError, ThreadBusy, Unavailable
from placet.hook.checkpoint import Checkpoint
from placet.hook.savers.saver import CheckpointRetention, Saver
from placet.testing.racing_processes import CLAIMED, STEPS, append_steps, race, try_to_claim
from placet.testing.threads import HOSTILE_IDS, STRANGE, create_full_checkpoint, create_thread

HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=1)
CROWD = 8
PATIENCE_S = 10.0
T = TypeVar("T")

OpenSaver = Callable[..., Saver]


def eventually(attempt: Callable[[], T]) -> T:
    """Return the result of `attempt`; repeat it while another lease blocks it."""
    last = time.monotonic() + PATIENCE_S
    while True:
        try:
            return attempt()
        except ThreadBusy:
            assert time.monotonic() < last, "the lease never ran out"


def save_thread(saver: Saver, rev: int, *, thread_id: str = "thread") -> Checkpoint:
    """Save a thread `rev` times and return it."""
    checkpoint = create_thread(thread_id)
    for _ in range(rev):
        checkpoint = checkpoint.next(messages=(*checkpoint.messages, {"role": "user", "content": "more"}))
        saver.put(checkpoint)
    return checkpoint


class SaverContract:
    """All tests of a saver that is used by one process with any number of threads."""

    @pytest.fixture
    def saver(self, open_saver: OpenSaver) -> Iterator[Saver]:
        opened = open_saver()
        yield opened
        opened.close()

    def test_an_unknown_thread_is_not_found(self, saver: Saver) -> None:
        assert saver.get("thread") is None
        assert not saver.list_checkpoints("thread")
        assert not saver.list_threads("paused")
        saver.release("thread")

    def test_everything_in_a_checkpoint_is_read_back(self, saver: Saver) -> None:
        checkpoint = create_full_checkpoint("thread")
        saver.put(checkpoint)
        found = saver.get("thread")
        assert found is not None
        assert found.checkpoint == checkpoint
        assert found.leased_until is None
        assert abs(datetime.now(UTC) - found.saved_at) < timedelta(minutes=1)
        assert [one.checkpoint for one in saver.list_checkpoints("thread")] == [checkpoint]

    @pytest.mark.parametrize("text", STRANGE, ids=ascii)
    def test_any_text_is_kept(self, saver: Saver, text: str) -> None:
        checkpoint = create_thread("thread", text).next(
            queued=(text,), results={text: text}, case={text: [text]}
        )
        saver.put(checkpoint)
        found = saver.get("thread")
        assert found is not None
        assert found.checkpoint == checkpoint

    def test_a_huge_checkpoint_is_kept(self, saver: Saver) -> None:
        checkpoint = create_thread("thread", "long " * 1_000_000)
        for _ in range(3):
            checkpoint = checkpoint.next()
            saver.put(checkpoint)
        found = saver.get("thread")
        assert found is not None
        assert found.checkpoint == checkpoint

    @pytest.mark.parametrize("rev", [0, 1, 2, 4, 5, -1])
    def test_only_the_next_checkpoint_is_accepted(self, saver: Saver, rev: int) -> None:
        save_thread(saver, 2)
        before = saver.list_checkpoints("thread")
        with pytest.raises(CheckpointConflict):
            saver.put(Checkpoint(thread_id="thread", rev=rev, stage="paused"))
        with pytest.raises(CheckpointConflict):
            saver.claim(Checkpoint(thread_id="thread", rev=rev, stage="running"), lease_for=HOUR)
        assert saver.list_checkpoints("thread") == before
        assert saver.list_threads("paused") == saver.list_threads("running") == []

    @pytest.mark.parametrize("rev", [0, 2, 7])
    def test_a_thread_cannot_start_at_a_later_revision(self, saver: Saver, rev: int) -> None:
        with pytest.raises(CheckpointConflict):
            saver.put(Checkpoint(thread_id="thread", rev=rev))
        assert saver.get("thread") is None

    def test_a_claimed_thread_is_busy_for_everyone_else(self, saver: Saver) -> None:
        checkpoint = save_thread(saver, 1)
        saver.claim(checkpoint.next(stage="running"), lease_for=HOUR)
        for rev in (1, 2, 3, 4):
            with pytest.raises(ThreadBusy):
                saver.claim(Checkpoint(thread_id="thread", rev=rev, stage="running"), lease_for=HOUR)
        found = saver.get("thread")
        assert found is not None
        assert (found.checkpoint.rev, found.checkpoint.stage) == (2, "running")
        assert found.leased_until is not None
        assert timedelta(0) <= found.leased_until - found.saved_at - HOUR <= timedelta(minutes=1)

    def test_a_new_thread_can_be_claimed(self, saver: Saver) -> None:
        saver.claim(create_thread("thread").next(stage="running"), lease_for=HOUR)
        with pytest.raises(ThreadBusy):
            saver.claim(create_thread("thread").next(stage="running"), lease_for=HOUR)

    def test_the_holder_goes_on_and_sets_the_thread_free(self, saver: Saver) -> None:
        held = save_thread(saver, 1).next(stage="running")
        saver.claim(held, lease_for=HOUR)
        further = held.next()
        saver.put(further, lease_for=HOUR)
        with pytest.raises(ThreadBusy):
            saver.claim(further.next(), lease_for=HOUR)
        done = further.next(stage="ready")
        saver.put(done)
        saver.claim(done.next(stage="running"), lease_for=HOUR)

    def test_only_the_newest_checkpoint_shows_the_lease(self, saver: Saver) -> None:
        held = save_thread(saver, 1).next()
        saver.claim(held, lease_for=HOUR)
        saver.put(held.next(), lease_for=HOUR)
        assert [one.leased_until is None for one in saver.list_checkpoints("thread")] == [False, True, True]

    def test_an_expired_lease_can_be_taken_over_and_its_old_holder_is_refused(self, saver: Saver) -> None:
        held = save_thread(saver, 1).next(stage="running")
        saver.claim(held, lease_for=MOMENT)
        taken = held.next(agent="another")
        eventually(lambda: saver.claim(taken, lease_for=HOUR))
        with pytest.raises(CheckpointConflict):
            saver.put(held.next(agent="too late"))
        with pytest.raises(CheckpointConflict):
            saver.renew("thread", held.rev, lease_for=HOUR)
        found = saver.get("thread")
        assert found is not None
        assert found.checkpoint == taken

    def test_a_late_holder_may_continue_if_the_lease_was_not_taken_over(self, saver: Saver) -> None:
        held = save_thread(saver, 1).next(stage="running")
        saver.claim(held, lease_for=timedelta(0))
        saver.renew("thread", held.rev, lease_for=HOUR)
        with pytest.raises(ThreadBusy):
            saver.claim(held.next(), lease_for=HOUR)
        saver.put(held.next(stage="ready"))

    def test_a_lease_can_be_extended(self, saver: Saver) -> None:
        held = save_thread(saver, 1).next(stage="running")
        saver.claim(held, lease_for=HOUR)
        before = saver.get("thread")
        saver.renew("thread", held.rev, lease_for=3 * HOUR)
        after = saver.get("thread")
        assert before is not None
        assert after is not None
        assert before.leased_until is not None
        assert after.leased_until is not None
        assert after.leased_until - before.leased_until > HOUR
        assert (after.checkpoint, after.saved_at) == (before.checkpoint, before.saved_at)

    def test_only_the_lease_of_the_newest_checkpoint_is_extended(self, saver: Saver) -> None:
        save_thread(saver, 2)
        for thread_id, rev in (("thread", 1), ("thread", 3), ("thread", 0), ("unknown", 1), ("unknown", 0)):
            with pytest.raises(CheckpointConflict):
                saver.renew(thread_id, rev, lease_for=HOUR)
        found = saver.get("thread")
        assert found is not None
        assert found.leased_until is None

    def test_checkpoints_are_listed_newest_first_and_three_are_kept(self, saver: Saver) -> None:
        newest = save_thread(saver, 5)
        kept = saver.list_checkpoints("thread")
        assert [one.checkpoint.rev for one in kept] == [5, 4, 3]
        assert [len(one.checkpoint.messages) for one in kept] == [6, 5, 4]
        assert kept[0].checkpoint == newest
        assert kept == sorted(kept, key=lambda one: one.saved_at, reverse=True)

    @pytest.mark.parametrize("count", [1, 2, 10])
    def test_as_many_checkpoints_are_kept_as_asked_for(self, open_saver: OpenSaver, count: int) -> None:
        saver = open_saver(retain=CheckpointRetention(count=count))
        save_thread(saver, 4)
        save_thread(saver, 2, thread_id="other")
        assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [4, 3, 2, 1][:count]
        assert [one.checkpoint.rev for one in saver.list_checkpoints("other")] == [2, 1][:count]
        saver.close()

    def test_old_checkpoints_are_removed_except_the_newest(self, open_saver: OpenSaver) -> None:
        saver = open_saver(retain=CheckpointRetention(count=10, age=timedelta(0)))
        checkpoint = save_thread(saver, 3)
        assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [3]
        saver.claim(checkpoint.next(), lease_for=HOUR)
        assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [4]
        saver.close()

    def test_young_checkpoints_are_kept(self, open_saver: OpenSaver) -> None:
        saver = open_saver(retain=CheckpointRetention(count=3, age=HOUR))
        save_thread(saver, 4)
        assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [4, 3, 2]
        saver.close()

    def test_threads_are_found_by_stage_longest_waiting_first(self, saver: Saver) -> None:
        ids = ["c", "a", "b"]
        for thread_id in ids:
            saver.put(Checkpoint(thread_id=thread_id, rev=1, stage="paused"))
        assert saver.list_threads("paused") == ids
        saver.claim(Checkpoint(thread_id="c", rev=2, stage="running"), lease_for=HOUR)
        saver.put(Checkpoint(thread_id="a", rev=2, stage="paused"))
        saver.renew("b", 1, lease_for=HOUR)
        assert saver.list_threads("paused") == ["b", "a"]
        assert saver.list_threads("running") == ["c"]
        assert saver.list_threads("ready") == []
        saver.put(Checkpoint(thread_id="c", rev=3, stage="ready"))
        assert (saver.list_threads("running"), saver.list_threads("ready")) == ([], ["c"])

    def test_a_released_thread_is_removed_and_can_start_again(self, saver: Saver) -> None:
        old = save_thread(saver, 3)
        other = save_thread(saver, 2, thread_id="other")
        saver.release("thread")
        assert saver.get("thread") is None
        assert not saver.list_checkpoints("thread")
        assert saver.list_threads("ready") == ["other"]
        with pytest.raises(CheckpointConflict):
            saver.put(old.next())
        with pytest.raises(CheckpointConflict):
            saver.renew("thread", old.rev, lease_for=HOUR)
        save_thread(saver, 1)
        assert [one.checkpoint.rev for one in saver.list_checkpoints("thread")] == [1]
        found = saver.get("other")
        assert found is not None
        assert found.checkpoint == other

    def test_a_claimed_thread_can_be_released(self, saver: Saver) -> None:
        saver.claim(create_thread("thread").next(), lease_for=HOUR)
        saver.release("thread")
        saver.claim(create_thread("thread").next(), lease_for=HOUR)

    def test_different_names_are_different_threads(self, saver: Saver) -> None:
        for thread_id in HOSTILE_IDS:
            saver.claim(create_thread(thread_id, thread_id).next(stage="paused"), lease_for=MOMENT)
        assert saver.list_threads("paused") == HOSTILE_IDS
        for thread_id in HOSTILE_IDS:
            found = saver.get(thread_id)
            assert found is not None
            assert found.checkpoint == create_thread(thread_id, thread_id).next(stage="paused")
            saver.renew(thread_id, 1, lease_for=HOUR)
            assert len(saver.list_checkpoints(thread_id)) == 1
        for thread_id in HOSTILE_IDS[::2]:
            saver.release(thread_id)
        assert saver.list_threads("paused") == HOSTILE_IDS[1::2]

    def test_a_thread_without_a_name_is_refused(self, saver: Saver) -> None:
        with pytest.raises(ValueError, match="needs a name"):
            saver.put(Checkpoint(thread_id="", rev=1))
        with pytest.raises(ValueError, match="needs a name"):
            saver.claim(Checkpoint(thread_id="", rev=1), lease_for=HOUR)
        assert saver.list_threads("ready") == []

    def test_only_one_of_many_concurrent_claims_succeeds(self, saver: Saver) -> None:
        checkpoint = save_thread(saver, 1)
        start = threading.Barrier(CROWD)

        def claim(number: int) -> PlacetError | None:
            start.wait(PATIENCE_S)
            try:
                saver.claim(checkpoint.next(agent=str(number)), lease_for=HOUR)
            except PlacetError as error:
                return error
            return None

        with ThreadPoolExecutor(CROWD) as pool:
            found = list(pool.map(claim, range(CROWD)))
        assert found.count(None) == 1
        assert {type(error) for error in found if error} <= {ThreadBusy, CheckpointConflict}
        kept = saver.get("thread")
        assert kept is not None
        assert kept.checkpoint.agent == str(found.index(None))

    def test_no_step_of_many_threads_is_lost(self, saver: Saver) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: append_steps(saver, name, 10), "abcd"))
        found = saver.get("thread")
        assert found is not None
        assert found.checkpoint.rev == 40
        assert sorted(found.checkpoint.queued) == sorted("abcd" * 10)

    def test_a_closed_saver_refuses_reads_and_writes(self, open_saver: OpenSaver) -> None:
        saver = open_saver()
        checkpoint = save_thread(saver, 1)
        saver.close()
        saver.close()
        attempts: list[Callable[[], object]] = [
            lambda: saver.get("thread"),
            lambda: saver.put(checkpoint.next()),
            lambda: saver.claim(checkpoint.next(), lease_for=HOUR),
            lambda: saver.renew("thread", 1, lease_for=HOUR),
            lambda: saver.list_checkpoints("thread"),
            lambda: saver.list_threads("ready"),
            lambda: saver.release("thread"),
        ]
        for attempt in attempts:
            with pytest.raises(Unavailable):
                attempt()


class SharedSaverContract(SaverContract):
    """All tests of a saver whose storage is durable and shared by several processes."""

    def test_a_checkpoint_is_readable_by_another_saver(self, open_saver: OpenSaver) -> None:
        first, second = open_saver(), open_saver()
        checkpoint = create_full_checkpoint("thread")
        first.put(checkpoint)
        found = second.get("thread")
        assert found is not None
        assert found.checkpoint == checkpoint
        second.claim(checkpoint.next(stage="running"), lease_for=HOUR)
        with pytest.raises(ThreadBusy):
            first.claim(checkpoint.next(stage="running"), lease_for=HOUR)
        first.close()
        second.close()

    def test_checkpoints_survive_a_restart(self, open_saver: OpenSaver) -> None:
        before = open_saver()
        checkpoint = create_full_checkpoint("thread")
        before.put(checkpoint)
        before.claim(checkpoint.next(stage="running"), lease_for=HOUR)
        kept = before.list_checkpoints("thread")
        before.close()
        after = open_saver()
        assert after.list_checkpoints("thread") == kept
        assert after.list_threads("running") == ["thread"]
        with pytest.raises(ThreadBusy):
            after.claim(checkpoint.next().next(), lease_for=HOUR)
        after.close()

    def test_many_processes_at_once_have_one_winner_and_lose_no_step(self, open_saver: OpenSaver) -> None:
        claims, steps = race(open_saver, [try_to_claim, append_steps], CROWD)
        assert claims.count(CLAIMED) == 1
        assert sorted(set(claims)) in (["ThreadBusy", CLAIMED], ["CheckpointConflict", "ThreadBusy", CLAIMED])
        assert steps == [str(STEPS)] * CROWD
        saver = open_saver()
        found = saver.get("thread")
        saver.close()
        assert found is not None
        assert found.checkpoint.rev == STEPS * CROWD
        assert sorted(found.checkpoint.queued) == sorted([str(n) for n in range(CROWD)] * STEPS)
