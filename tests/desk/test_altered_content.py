"""A stored offer that no longer matches its digest is neither shown nor answered, and its case is marked."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from placet.bootstrap.storage import open_store
from placet.cases.events import find_broken_link
from placet.errors import CaseNotFound, ContentAltered, PlacetError
from placet.ports.store import Store
from placet.protocol.poll import Status
from placet.testing.desk import ACME, DeskForTests, create_desk_for_tests
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = await open_store(str(path))
    yield opened
    await opened.aclose()


@pytest.fixture
async def kit(store: Store) -> DeskForTests:
    return create_desk_for_tests(store=store)


async def change(kit: DeskForTests, path: Path, *statements: str, case_id: str) -> None:
    """Change the file as another program would, and wait until the store has noticed."""
    other = apsw.Connection(str(path))
    for sql in statements:
        other.execute(sql, {"id": case_id} if ":id" in sql else None)
    other.close()
    noticed = asyncio.Event()
    kit.store.add_change_listener(lambda changed: noticed.set() if changed is None else None)
    kit.store._writer.check_other_processes()  # type: ignore[attr-defined]
    async with asyncio.timeout(PATIENCE_S):
        await noticed.wait()


OFFER = "(SELECT number FROM cases WHERE id = :id)"
PROMPT = f"""UPDATE offers SET offer = CAST(json_set(CAST(offer AS TEXT), '$.prompt', 'Harmless?') AS BLOB)
    WHERE case_number = {OFFER}"""
CONTEXT = f"""UPDATE offers SET offer = CAST(json_set(CAST(offer AS TEXT), '$.context.more', 1) AS BLOB)
    WHERE case_number = {OFFER}"""
SALT = f"""UPDATE offers SET offer = CAST(json_remove(CAST(offer AS TEXT), '$.salt') AS BLOB)
    WHERE case_number = {OFFER}"""
REMOVED = f"DELETE FROM offers WHERE case_number = {OFFER}"
GARBLED = f"UPDATE offers SET offer = x'00ff' WHERE case_number = {OFFER}"
TRUNCATED = f"UPDATE offers SET offer = substr(offer, 1, 40) WHERE case_number = {OFFER}"
DEEP = f"UPDATE offers SET offer = CAST('{'[' * 5000}' AS BLOB) WHERE case_number = {OFFER}"
DIGEST = """UPDATE cases
    SET state = CAST(json_set(CAST(state AS TEXT), '$.offer_digest', hex(zeroblob(32))) AS BLOB)
    WHERE id = :id"""
TYPE = """UPDATE cases SET state = CAST(json_set(CAST(state AS TEXT), '$.type', 'confirmation') AS BLOB)
    WHERE id = :id"""
CHANGES = {
    "prompt": PROMPT,
    "context": CONTEXT,
    "salt": SALT,
    "removed": REMOVED,
    "garbled": GARBLED,
    "truncated": TRUNCATED,
    "deep": DEEP,
    "digest": DIGEST,
    "type": TYPE,
}


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES)
async def test_a_changed_offer_is_neither_shown_nor_signed_under_the_old_digest(
    kit: DeskForTests, path: Path, sql: str
) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    case, _ = await human.look()
    await change(kit, path, sql, case_id=opened.id)
    attempts: list[Callable[[], Awaitable[object]]] = [
        human.look,
        human.read,
        lambda: human.type({"a": "b"}),
        lambda: human.answer("approve", shown=case.offer_digest),
        lambda: human.press("approve"),
        lambda: kit.desk.require_submitter(opened.id, human.submit_token),
        lambda: kit.desk.pass_on(opened.id, actor="person"),
        lambda: kit.desk.get_current_case(opened.id, ACME),
    ]
    for attempt in attempts:
        with pytest.raises(ContentAltered) as refused:
            await attempt()
        assert refused.value.status == 503
    marked = await kit.store.get_case(opened.id)
    assert marked is not None
    assert (marked.status, marked.decision) == (Status.PENDING, None)
    assert marked.altered_at == kit.clock()


async def test_the_change_is_logged_and_the_case_marked_once(
    kit: DeskForTests, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = await kit.open()
    await change(kit, path, PROMPT, case_id=opened.id)
    with caplog.at_level(logging.ERROR, "placet.desk"):
        for _ in range(3):
            with pytest.raises(ContentAltered):
                await kit.human(opened).look()
    assert caplog.messages == [f"content_altered case_id={opened.id} owner=acme status=pending"]
    events = await kit.store.list_events(opened.id)
    assert [event.type for event in events] == ["review.created", "review.altered"]
    marked = await kit.store.get_case(opened.id)
    assert marked is not None
    assert find_broken_link(events, head=marked.chain) is None


async def test_a_marked_case_is_never_answered_even_when_the_offer_is_put_back(
    kit: DeskForTests, path: Path
) -> None:
    opened = await kit.open()
    await change(kit, path, "CREATE TABLE kept AS SELECT * FROM offers", PROMPT, case_id=opened.id)
    with pytest.raises(ContentAltered):
        await kit.human(opened).press("approve")
    await change(kit, path, "UPDATE offers SET offer = (SELECT offer FROM kept)", case_id=opened.id)
    with pytest.raises(ContentAltered):
        await kit.human(opened).press("approve")
    with pytest.raises(ContentAltered):
        await kit.desk.get_current_case(opened.id, ACME)


async def test_offers_swapped_between_two_cases_are_noticed(kit: DeskForTests, path: Path) -> None:
    one, other = await kit.open(), await kit.open()
    await change(
        kit,
        path,
        "UPDATE offers SET offer = (SELECT offer FROM offers AS o WHERE o.case_number <> offers.case_number)"
        f" WHERE case_number = {OFFER}",
        case_id=one.id,
    )
    with pytest.raises(ContentAltered):
        await kit.human(one).press("approve")
    await kit.human(other).press("approve")


async def test_a_marked_case_still_expires_and_can_be_withdrawn(kit: DeskForTests, path: Path) -> None:
    late, unwanted = await kit.open(timeout="1h"), await kit.open(timeout="1h")
    await change(kit, path, "UPDATE offers SET offer = x'00'", case_id=late.id)
    for opened in (late, unwanted):
        with pytest.raises(ContentAltered):
            await kit.human(opened).look()
    assert (await kit.desk.cancel(unwanted.id, ACME, reason=None)).status is Status.CANCELLED
    kit.clock.advance(timedelta(hours=1))
    await kit.sweep.run_once()
    assert (await kit.poll(late.id))["status"] == "expired"
    assert (await kit.poll(unwanted.id))["status"] == "cancelled"


async def test_the_answer_of_a_completed_case_stays_readable(kit: DeskForTests, path: Path) -> None:
    opened = await kit.open()
    await kit.human(opened).press("approve")
    await change(kit, path, PROMPT, case_id=opened.id)
    with pytest.raises(ContentAltered):
        await kit.human(opened).look()
    assert (await kit.poll(opened.id))["result"]["action"] == "approve"


async def test_the_inbox_leaves_an_altered_case_out_and_lists_the_others(
    kit: DeskForTests, path: Path
) -> None:
    altered, garbled, fine = await kit.open(), await kit.open(), await kit.open()
    await change(kit, path, PROMPT, case_id=altered.id)
    await change(kit, path, GARBLED, case_id=garbled.id)
    listed = await kit.store.list_waiting_cases(["acme"], now=kit.clock())
    assert [case.id for case, offer in listed if await kit.desk.is_intact(case, offer)] == [fine.id]


async def test_erased_cases_are_not_found_rather_than_altered(kit: DeskForTests) -> None:
    opened = await kit.open()
    await kit.human(opened).press("approve")
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    with pytest.raises(CaseNotFound):
        await kit.desk.get_case_and_offer(opened.id)
    assert [event.type for event in await kit.store.list_events(opened.id)][-1] == "review.erased"


async def test_marked_cases_are_erased_after_their_retention(kit: DeskForTests, path: Path) -> None:
    opened = await kit.open()
    await kit.human(opened).press("approve")
    await change(kit, path, GARBLED, case_id=opened.id)
    with pytest.raises(ContentAltered):
        await kit.human(opened).look()
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    with pytest.raises(CaseNotFound):
        await kit.human(opened).look()


async def test_content_of_python_callers_is_not_taken_for_altered(kit: DeskForTests) -> None:
    opened = await kit.open(context={"tags": {"b", "a", "c"}, "pair": (1, 2), "raw": b"x", "rate": 1.0})
    await kit.human(opened).answer("approve")


async def test_a_store_that_cannot_mark_the_case_still_refuses_it(
    kit: DeskForTests, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = await kit.open()
    await change(kit, path, PROMPT, case_id=opened.id)
    kit.store._writer._connection.pragma("query_only", True)  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(PlacetError) as refused:
            await kit.human(opened).press("approve")
        assert refused.value.status == 503
    assert "content_altered_not_marked" in caplog.text
