"""Access to a case: its owner may follow it; for others it does not exist."""

import pytest

from placet.desk.access import get_actor, require_scope
from placet.errors import AlreadyClosed, CaseNotFound, InvalidToken, NotPermitted
from placet.ports.identity import Principal
from placet.protocol.poll import Status
from placet.testing.desk import ACME, ANONYMOUS, OTHER, DeskForTests

pytestmark = pytest.mark.anyio


async def test_foreign_case_is_not_found(kit: DeskForTests) -> None:
    """Ruling 10."""
    opened = await kit.open()
    for case_id in (opened.id, "review_unknown", "", "../../etc", "\x00", "é" * 1000):
        with pytest.raises(CaseNotFound) as refusal:
            await kit.desk.get_owned_case(case_id, OTHER)
        assert refusal.value.body() == CaseNotFound().body()


async def test_anonymous_caller_must_authenticate(kit: DeskForTests) -> None:
    opened = await kit.open()
    with pytest.raises(InvalidToken):
        await kit.desk.get_owned_case(opened.id, ANONYMOUS)


async def test_an_anonymous_case_may_be_followed_anonymously(kit: DeskForTests) -> None:
    opened = await kit.open(principal=ANONYMOUS)
    assert (await kit.poll(opened.id, ANONYMOUS))["status"] == "pending"


async def test_only_the_owner_withdraws(kit: DeskForTests) -> None:
    opened = await kit.open()
    with pytest.raises(CaseNotFound):
        await kit.desk.cancel(opened.id, OTHER, reason="mine now")
    with pytest.raises(InvalidToken):
        await kit.desk.cancel(opened.id, ANONYMOUS, reason="mine now")
    case = await kit.desk.cancel(opened.id, ACME, reason="no longer needed")
    assert (case.status, case.reason) == (Status.CANCELLED, "no longer needed")
    with pytest.raises(AlreadyClosed):
        await kit.desk.cancel(opened.id, ACME, reason="again")


async def test_owner_lists_only_their_own_cases(kit: DeskForTests) -> None:
    mine = [await kit.open() for _ in range(3)]
    await kit.open(principal=OTHER)
    await kit.human(mine[0]).answer("approve")
    listed = await kit.desk.list_cases(ACME, status=None, before=None, limit=10)
    assert [case.id for case in listed] == [opened.id for opened in reversed(mine)]
    page = await kit.desk.list_cases(ACME, status=None, before=mine[2].id, limit=1)
    assert [case.id for case in page] == [mine[1].id]
    done = await kit.desk.list_cases(ACME, status=Status.COMPLETED, before=None, limit=10)
    assert [case.id for case in done] == [mine[0].id]


def test_a_key_needs_the_scope_for_what_it_does() -> None:
    reader = Principal(name="acme", scopes=frozenset({"cases:read"}))
    require_scope(reader, "cases:read")
    with pytest.raises(NotPermitted, match="cases:write"):
        require_scope(reader, "cases:write")
    require_scope(Principal(name="root", scopes=frozenset({"admin"})), "cases:write")


def test_the_log_names_principals_by_their_keys() -> None:
    assert get_actor(ACME) == "key:acme"
    assert get_actor(ANONYMOUS) == "anonymous"
