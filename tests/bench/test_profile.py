"""The profiler's own cost is taken off, and what is left lands in its place."""

import cProfile
import pstats

import pytest

from bench.profile import (
    DIGESTS,
    HTTP,
    RULES,
    SERVER,
    STORE,
    THREAD,
    WAITING,
    Entry,
    Function,
    measure_own_times,
    measure_profiler_cost,
    sum_by_place,
)


def test_a_function_that_does_nothing_costs_next_to_nothing() -> None:
    def nothing() -> None:
        pass

    def calls() -> None:
        for _ in range(50_000):
            nothing()

    profile = cProfile.Profile()
    profile.runcall(calls)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    raw = sum(entry[2] for entry in stats.values()) / 50_000 * 1e6
    own = measure_own_times(stats, measure_profiler_cost(), requests=50_000)
    assert sum(own.values()) < raw


def test_time_is_sorted_by_file_by_name_and_by_caller() -> None:
    app, desk = ("src/placet/server/app.py", 1, "call"), ("src/placet/desk/desk.py", 1, "open")
    execute, digest = ("~", 0, "<method 'execute' of 'apsw.Connection'>"), ("~", 0, "<_hashlib.sha256>")
    length, lock = ("~", 0, "<built-in len>"), ("~", 0, "<method 'acquire' of '_thread.lock' objects>")
    half = {app: (1, 1, 0.0, 0.0), desk: (1, 1, 0.0, 0.0)}
    stats: dict[Function, Entry] = {one: (1, 1, 0.0, 0.0, {}) for one in (app, desk, execute, digest, lock)}
    stats[length] = (2, 2, 0.0, 0.0, half)
    own = {app: 10.0, desk: 20.0, execute: 5.0, digest: 3.0, length: 4.0, lock: 99.0}
    places = sum_by_place(own, stats, loop_us=50.0, thread_us=7.0)
    assert places == pytest.approx(
        {SERVER: 12.0, RULES: 22.0, STORE: 5.0, DIGESTS: 3.0, HTTP: 8.0, THREAD: 7.0}
    )
    assert WAITING not in places
