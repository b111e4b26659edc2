"""Walls of the inbox: every key against every case, held messages of the relay included."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from a2a.types.a2a_pb2 import Task

from placet.bootstrap.storage import open_memory_store
from placet.cases.case import Subject
from placet.cases.tokens import digest_token
from placet.desk.api_keys import DEFAULT_SCOPES
from placet.desk.draft import draft_from
from placet.desk.inbox_scope import InboxScope
from placet.errors import Unavailable
from placet.ports.hold_store import HoldRow
from placet.ports.identity import Principal
from placet.relay.holds.review_case import build_case_owner
from placet.server.inbox_sessions import InboxSessions
from placet.testing.clock import FakeClock
from placet.testing.samples import sample_api_key, sample_creation
from tests.relay.a2a.sdk_agent import SdkAgent, run_sdk_agent
from tests.relay.holds.holding_server import (
    DONE,
    find_pending_hold,
    get_task,
    list_artifact_texts,
    open_sdk_caller,
    run_holding_server,
    wait_until_settled,
)
from tests.server.inboxes import get_last_event, person
from tests.server.running import EXAMPLE, RunningServer

APPROVALS = "/relay/v1/approvals"
OWNERS: dict[str, Principal] = {
    "acme's": Principal(name="acme"),
    "other's": Principal(name="other"),
    "nobody's": Principal(name=None),
    "held in default": build_case_owner("default"),
    "held elsewhere": build_case_owner("elsewhere"),
}
SERVICES = {"acme's", "other's", "nobody's"}
# A name, the scopes of its key, and what it may see and decide. The relay's reviewers are in its settings.
KEYS: dict[str, tuple[str, tuple[str, ...], set[str]]] = {
    "a service's own": ("acme", ("inbox",), {"acme's"}),
    "another service's own": ("other", ("inbox", "cases:read"), {"other's"}),
    "of someone without cases": ("eve", ("inbox",), set()),
    "for all": ("ada", ("inbox:all",), SERVICES),
    "for all, of a caller of the relay": ("other", ("inbox:all",), SERVICES),
    "of a reviewer": ("rita", ("inbox",), {"held in default"}),
    "of a reviewer, for all": ("rita", ("inbox:all",), SERVICES | {"held in default"}),
    "of one who may only read": ("ravi", ("inbox",), set()),
    "of one who may only read, for all": ("ravi", ("inbox:all",), SERVICES),
    "of a reviewer elsewhere": ("stan", ("inbox",), {"held elsewhere"}),
    "of a reviewer elsewhere, for all": ("stan", ("inbox:all",), SERVICES | {"held elsewhere"}),
    "of an administrator": ("boss", ("inbox", "admin"), {"held in default"}),
    "of an administrator, for all": ("boss", ("inbox:all", "admin"), SERVICES | {"held in default"}),
}


@pytest.fixture(scope="module")
def agent() -> Iterator[SdkAgent]:
    with run_sdk_agent() as found:
        yield found


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_holding_server(tmp_path_factory.mktemp("walls"), {"errands": agent.url}) as found:
        yield found


@pytest.fixture(scope="module")
def cases(server: RunningServer) -> dict[str, str]:
    """One case of every owner, by whose it is."""
    return {whose: _open_case(server, owner) for whose, owner in OWNERS.items()}


@pytest.fixture(scope="module")
def held_message(server: RunningServer) -> HoldRow:
    """A message that the relay holds in the tenant `default`."""
    return _hold_message(server)


def _hold_message(server: RunningServer) -> HoldRow:
    async def sent() -> str:
        async with open_sdk_caller(server) as made:
            [answer] = await made.send("echo my tulip")
            return str(answer.task.id)

    return find_pending_hold(server, asyncio.run(sent()))


def _open_case(server: RunningServer, owner: Principal) -> str:
    held = (owner.name or "").startswith("relay:")
    work = server.parts.desk.open(
        draft_from({**EXAMPLE, "prompt": f"Of {owner.name}?"}),
        owner,
        subject=Subject(entry_point="relay") if held else None,
    )
    return server.run(work).case_id


@pytest.mark.parametrize("key", KEYS)
def test_a_key_lists_and_opens_what_it_may_decide_and_nothing_else(
    server: RunningServer, cases: dict[str, str], key: str
) -> None:
    name, scopes, allowed = KEYS[key]
    with person(server, server.create_key(name, *scopes)) as somebody:
        listed = somebody.list_cases()
        assert {whose for whose, case_id in cases.items() if case_id in listed} == allowed
        text = somebody.get_list() + somebody.get_list(words="of") + somebody.get_list(show="decided")
        for whose, case_id in cases.items():
            status = somebody.open(case_id).status_code
            assert (whose, status) == (whose, 200 if whose in allowed else 404)
            assert (f"Of {OWNERS[whose].name}?" in text) == (whose in allowed)
        missing, hidden = (
            somebody.open("review_unknown"),
            [id for one, id in cases.items() if one not in allowed],
        )
        assert all(somebody.open(id).text == missing.text for id in hidden)


@pytest.mark.parametrize("key", KEYS)
def test_a_held_message_is_in_sight_of_those_who_may_decide_it_through_the_approvals_api(
    server: RunningServer, held_message: HoldRow, key: str
) -> None:
    name, scopes, _ = KEYS[key]
    # The scope `inbox` does not open the API: programs use another key of the same name.
    for_api = server.create_key(name, *scopes, *DEFAULT_SCOPES)
    with (
        server.client(for_api) as client,
        person(server, server.create_key(name, *scopes)) as somebody,
    ):
        shown = client.get(f"{APPROVALS}/{held_message.id}").status_code == 200
        linked = client.post(f"{APPROVALS}/{held_message.id}/link").status_code == 200
        assert (held_message.case_id in somebody.list_cases()) == (shown and linked)


def test_a_held_message_goes_on_once_a_reviewer_lets_it_pass_in_the_inbox(
    server: RunningServer, agent: SdkAgent
) -> None:
    async def seen() -> Task:
        async with open_sdk_caller(server) as made:
            return await get_task(made, hold.task_id)

    hold = _hold_message(server)
    with person(server, server.create_key("rita", "inbox")) as rita:
        assert "Held message · new" in rita.get_list(type="held_message")
        page = rita.page(hold.case_id)
        assert "echo my" in page.text
        done = page.post("respond", {"action": "approve"})
        assert done.response.status_code == 200, done.text
        assert hold.case_id not in rita.list_cases()
    wait_until_settled(server, hold)
    task = asyncio.run(seen())
    assert task.status.state == DONE
    assert any("my tulip" in text for text in list_artifact_texts(task))
    assert get_last_event(server, hold.case_id).actor == "key:rita"
    with server.client(server.create_key("rita")) as client:
        assert client.get(f"{APPROVALS}/{hold.id}").json()["resolution"]["resolvedBy"] == "rita"


def test_a_person_who_loses_the_right_to_decide_loses_the_open_page() -> None:
    async def run() -> list[bool]:
        rights = FixedRights("relay:default")
        sessions = await _create_sessions(rights)
        case = sample_creation(owner="relay:default").case
        cookie = await sessions.sign_in("secret", address="127.0.0.1")
        visitor = await sessions.find_visitor(cookie)
        assert visitor is not None
        admitted, found = sessions.admit(visitor, case.id), []
        for rights.holds in ("relay:default", None, "relay:elsewhere", "relay:default"):
            found.append(await sessions.find_case_session(case, admitted, cookie) is not None)
        return found

    assert asyncio.run(run()) == [True, False, False, True]


def test_a_person_who_cannot_be_looked_up_is_refused() -> None:
    async def run() -> None:
        rights = FixedRights("relay:default")
        sessions = await _create_sessions(rights)
        cookie = await sessions.sign_in("secret", address="127.0.0.1")
        rights.error = Unavailable()
        with pytest.raises(Unavailable):
            await sessions.find_visitor(cookie)

    asyncio.run(run())


class FixedRights:
    """Whose held messages a principal may decide, as the relay would say."""

    def __init__(self, holds: str | None) -> None:
        self.holds = holds
        self.error: Exception | None = None

    async def __call__(self, principal: Principal) -> str | None:
        if self.error is not None:
            raise self.error
        return self.holds


async def _create_sessions(rights: FixedRights) -> InboxSessions:
    store = open_memory_store()
    await store.save_api_key(sample_api_key("rita", digest=digest_token("secret"), scopes=("inbox",)))
    return InboxSessions(
        keys=store, secret="5a" * 32, clock=FakeClock(), monotonic=time.monotonic, held_owner=rights
    )


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("holds", [None, "relay:a"])
def test_no_sight_crosses_a_tenants_wall(everyone: bool, holds: str | None) -> None:
    sight = InboxScope(own="acme", everyone=everyone, holds=holds)
    assert sight.sees("relay:a") == (holds is not None)
    for owner in ("relay:b", "relay:", "relay:ab", "relay:a:b"):
        assert not sight.sees(owner)
    assert sight.sees("acme")
    assert sight.sees("other") == sight.sees(None) == sight.sees("") == sight.sees("relay") == everyone
