"""One principal cannot fill the server: open cases, stored content and the rate of both are limited."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.bootstrap.storage import open_store
from placet.desk.case_limits import Limits
from placet.errors import QuotaExceeded
from placet.ports.case_store import OwnerUsage
from placet.ports.store import Store
from placet.testing.desk import ACME, ANONYMOUS, OTHER, DeskForTests, create_desk_for_tests
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

OFF: dict[str, Any] = {
    "max_open_cases": 0,
    "max_stored_bytes": 0,
    "max_cases_per_minute": 0,
    "max_case_bytes_per_minute": 0,
}
LARGE = {"artifact": "x" * 100_000}


class Seconds:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def desk_with(store: Store, seconds: Seconds | None = None, **limits: int) -> DeskForTests:
    return create_desk_for_tests(
        store=store, limits=Limits(**{**OFF, **limits}), monotonic=seconds or Seconds()
    )


async def refusal(kit: DeskForTests, **draft: Any) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as caught:
        await kit.open(**draft)
    return caught.value


async def test_one_key_cannot_write_800_mb_in_20_seconds(store: Store) -> None:
    seconds = Seconds()
    kit = create_desk_for_tests(store=store, monotonic=seconds)  # the default limits
    size = len((await kit.open(context={"artifact": "x" * 250_000})).body)
    allowed = Limits().max_case_bytes_per_minute
    with kit.desk.quotas.reserve("acme", allowed - size):  # as many more such cases as fit
        pass
    error = await refusal(kit, context=LARGE)
    assert (error.details["quota"], error.details["limit"]) == ("case_bytes_per_minute", allowed)
    seconds.now += 20
    written = allowed + allowed / 60 * 20
    assert written < 200 * 1024**2


async def test_open_cases_are_limited_per_principal_and_freed_by_answers(store: Store) -> None:
    kit = desk_with(store, max_open_cases=2)
    first = await kit.open()
    await kit.open()
    error = await refusal(kit)
    assert error.body()["error"] == "rate_limited"
    assert error.details == {"quota": "open_cases", "limit": 2, "retry_after": 60}
    await kit.open(principal=OTHER)
    await kit.open(principal=ANONYMOUS)
    await kit.human(first).answer("reject")
    await kit.open()
    await refusal(kit)


async def test_cancelled_and_expired_cases_are_not_open(store: Store) -> None:
    kit = desk_with(store, max_open_cases=2)
    cancelled = await kit.open(timeout="1h")
    await kit.open(timeout="1h")
    await kit.desk.cancel(cancelled.id, ACME, reason=None)
    assert (await store.get_usage("acme")).open_cases == 1
    kit.clock.advance(timedelta(hours=2))
    await kit.sweep.run_once()
    assert (await store.get_usage("acme")).open_cases == 0


async def test_stored_content_is_limited_and_freed_when_retention_ends(store: Store) -> None:
    kit = desk_with(store, max_stored_bytes=250_000)
    opened = [await kit.open(context=LARGE) for _ in range(2)]
    assert (await refusal(kit, context=LARGE)).details["quota"] == "stored_bytes"
    for one in opened:
        await kit.human(one).answer("reject")
    await refusal(kit, context=LARGE)  # closed, but still stored
    kit.clock.advance(timedelta(days=31))
    await kit.sweep.run_once()
    assert await store.get_usage("acme") == OwnerUsage(open_cases=0, stored_bytes=0)
    await kit.open(context=LARGE)


async def test_requests_at_the_same_time_do_not_exceed_a_quota(store: Store) -> None:
    kit = desk_with(store, max_open_cases=10)
    results = await asyncio.gather(*(kit.open() for _ in range(60)), return_exceptions=True)
    assert sum(isinstance(one, QuotaExceeded) for one in results) == 50
    assert (await store.get_usage("acme")).open_cases == 10
    await asyncio.gather(*(kit.open(principal=OTHER) for _ in range(10)))


class SlowEvaluator:
    """Reports each request, and answers once the test lets it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def run(self, method: Callable[..., Any], *arguments: Any) -> Any:
        self.asked.set()
        await self.may_answer.wait()
        return method(*arguments)


async def test_a_case_whose_schema_is_being_checked_counts(store: Store) -> None:
    slow = SlowEvaluator()
    kit = create_desk_for_tests(store=store, limits=Limits(**{**OFF, "max_open_cases": 1}), evaluator=slow)
    call = {"id": "one", "name": "send", "arguments": {}, "schema": {"type": "object"}}
    first = asyncio.create_task(kit.open(context={"tool_calls": [call]}))
    await asyncio.wait_for(slow.asked.wait(), PATIENCE_S)
    await refusal(kit)
    slow.may_answer.set()
    await first
    assert (await store.get_usage("acme")).open_cases == 1


async def test_drafts_saved_at_the_same_time_do_not_exceed_a_quota(store: Store) -> None:
    kit = desk_with(store, max_stored_bytes=60_000)
    opened = [await kit.open() for _ in range(5)]
    typing = (kit.human(one).type({"note": "x" * 30_000}) for one in opened)
    results = await asyncio.gather(*typing, return_exceptions=True)
    assert any(isinstance(one, QuotaExceeded) for one in results)
    assert (await store.get_usage("acme")).stored_bytes < 60_000


async def test_a_quota_is_right_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "cases.db")
    store = await open_store(path)
    kit = desk_with(store, max_open_cases=3)
    for _ in range(3):
        await kit.open()
    await store.aclose()
    again = await open_store(path)
    try:
        await refusal(desk_with(again, max_open_cases=3))
    finally:
        await again.aclose()


async def test_two_processes_on_one_file_share_a_quota(tmp_path: Path) -> None:
    stores = [await open_store(str(tmp_path / "cases.db")) for _ in range(2)]
    try:
        first, second = (desk_with(store, max_open_cases=4) for store in stores)
        for _ in range(2):
            await first.open()
            await second.open()
        await refusal(first)
        await refusal(second)
    finally:
        for store in stores:
            await store.aclose()


async def test_the_rate_of_new_cases_is_limited(store: Store) -> None:
    seconds = Seconds()
    kit = desk_with(store, seconds, max_cases_per_minute=6)
    for _ in range(6):
        await kit.open()
    error = await refusal(kit)
    assert error.details == {"quota": "cases_per_minute", "limit": 6, "retry_after": 1}
    seconds.now += 10  # one tenth of a minute is one case
    await kit.open()
    await refusal(kit)
    seconds.now += 3600  # a long pause allows one minute's worth, not more
    for _ in range(6):
        await kit.open()
    await refusal(kit)


async def test_a_case_larger_than_the_rate_passes_once_and_delays_the_next(store: Store) -> None:
    seconds = Seconds()
    kit = desk_with(store, seconds, max_case_bytes_per_minute=60_000)
    await kit.open(context=LARGE)
    error = await refusal(kit)
    assert error.details["quota"] == "case_bytes_per_minute"
    seconds.now += error.details["retry_after"]
    await kit.open()


async def test_a_repeated_request_gets_its_first_response_at_a_quota(store: Store) -> None:
    kit = desk_with(store, max_open_cases=1)
    first = await kit.open(idempotency_key="one")
    assert (await kit.open(idempotency_key="one")).body == first.body
    await refusal(kit)


async def test_refusals_are_counted_and_nothing_is_written(store: Store) -> None:
    kit = desk_with(store, max_open_cases=1)
    await kit.open()
    for _ in range(3):
        await refusal(kit)
    assert kit.desk.quotas.refused == {"open_cases": 3}
    assert len(await store.list_cases("acme")) == 1


async def test_a_case_that_is_refused_by_the_store_is_not_counted(store: Store) -> None:
    kit = desk_with(store, max_open_cases=1)
    with pytest.raises(Exception, match="previous_case_id"):
        await kit.open(previous_case_id="review_nothing")
    await kit.open()


async def test_drafts_count_as_stored_content_and_stop_at_the_quota(store: Store) -> None:
    kit = desk_with(store, max_stored_bytes=60_000)
    first, second = await kit.open(), await kit.open()
    before = (await store.get_usage("acme")).stored_bytes
    await kit.human(first).type({"note": "x" * 40_000})
    assert (await store.get_usage("acme")).stored_bytes > before + 40_000
    with pytest.raises(QuotaExceeded) as caught:
        await kit.human(second).type({"note": "x" * 40_000})
    assert caught.value.details["quota"] == "stored_bytes"
    await kit.human(first).type({"note": "short"})
    await kit.human(second).type({"note": "x" * 40_000})
    for opened in (first, second):
        await kit.human(opened).answer("approve")
    assert (await store.get_usage("acme")).stored_bytes == before


async def test_long_answers_count_as_stored_content_until_retention_ends(store: Store) -> None:
    kit = desk_with(store, max_stored_bytes=60_000)
    opened = await kit.open()
    before = (await store.get_usage("acme")).stored_bytes
    await kit.human(opened).answer("reject", {"feedback": "x" * 9_000})
    assert (await store.get_usage("acme")).stored_bytes > before + 9_000
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    assert (await store.get_usage("acme")).stored_bytes == 0


async def test_a_full_quota_does_not_keep_people_from_deciding(store: Store) -> None:
    kit = desk_with(store, max_stored_bytes=60_000)
    opened = await kit.open()
    await kit.open(context={"artifact": "x" * 50_000})
    await refusal(kit, context=LARGE)
    case = await kit.human(opened).answer("reject", {"feedback": "x" * 9_000})
    assert case.status == "completed"


async def test_the_rate_of_drafts_and_answers_is_limited_with_that_of_cases(store: Store) -> None:
    seconds = Seconds()
    kit = desk_with(store, seconds, max_case_bytes_per_minute=60_000)
    opened = await kit.open()
    for _ in range(2):
        await kit.human(opened).type({"note": "x" * 40_000})
    with pytest.raises(QuotaExceeded) as caught:
        await kit.human(opened).type({"note": "short"})
    assert caught.value.details["quota"] == "answer_bytes_per_minute"
    with pytest.raises(QuotaExceeded):
        await kit.human(opened).answer("reject", {"feedback": "no"})
    seconds.now += caught.value.details["retry_after"]
    assert (await kit.human(opened).answer("reject", {"feedback": "no"})).status == "completed"
