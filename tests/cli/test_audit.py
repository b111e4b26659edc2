"""`placet audit`: the same events beside a running server, from the server and from its file."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from placet.cli.audit import list_newest
from placet.cli.main import cli
from placet.cli.options import with_store
from placet.cli.relay_operations import operator_request
from placet.desk import clock
from placet.errors import CaseNotFound, PlacetError, SettingsError, Unavailable
from placet.http.operations import LocalOperations
from placet.ports.store import Store
from placet.relay.api.audit import AuditApi
from placet.relay.audit.stored_audit_log import StoredAuditLog
from placet.relay.settings import GroupSettings, RelaySettings
from placet.stores.sqlite import SqliteStore
from tests.cli.process import placet
from tests.relay.audit.samples import subscription
from tests.server.running import RunningServer, running

RELAY = RelaySettings(
    enabled=True, groups={"auditors": GroupSettings(members=("ada",), permissions=("AUDIT:READ",))}
)
Where = dict[str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    asyncio.run(fill(folder / "cases.db"))
    with running(folder, present=True, relay=RELAY) as server:
        yield server


async def fill(path: Path) -> None:
    store = await SqliteStore.open(path)
    moment = clock.now()  # one moment for all events, however slow the machine is
    trail = StoredAuditLog(store, now=lambda: moment)
    for number in range(3):
        way, name = subscription(), f"call-{number}"
        trail.record(
            trail.row("COMMUNICATION_AUDIT", way, correlation_id=name, action="LOG", message="Passed.")
        )
        trail.record(
            trail.row(
                "REGEX_DETECTION",
                way,
                correlation_id=name,
                action="MASK",
                message="\x1b[31mfound\u202e",
                took_for=timedelta(milliseconds=1),
            )
        )
    resolved = {"resolution": "APPROVED", "resolvedBy": "ada"}
    decided = trail.row(
        "HITL_RESOLUTION",
        subscription(tenant="decided"),
        correlation_id="held",
        message="A person approved this message.",
        metadata=resolved,
    )
    trail.record(decided)
    trail.record(trail.row("HITL", subscription(tenant="other"), correlation_id="foreign"))
    await trail.aclose()
    await store.aclose()


@pytest.fixture(scope="module", params=["server", "file"])
def where(request: pytest.FixtureRequest, server: RunningServer, folder: Path) -> Where:
    """The environment that says where the audit is."""
    if request.param == "file":
        return {"PLACET_DB": str(folder / "cases.db")}
    return {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("ada")}


def invoked(where: Where, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments], env=where)


def run(where: Where, *arguments: str) -> str:
    done = invoked(where, *arguments)
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_events_are_listed_and_nothing_in_them_drives_the_terminal(where):
    lines = run(where, "list").splitlines()
    assert lines[0].split() == ["AT", "TYPE", "ACTION", "WAY", "CORRELATION", "ID", "MESSAGE"]
    assert len(lines) == 7
    assert "REGEX_DETECTION      MASK    trip-planner -> weather  call-2" in lines[1]
    assert not {"\x1b", "\u202e"} & set("".join(lines))


def test_flags_say_which_events(where):
    asked = ["list", "--json", "--since", "1h", "--type", "REGEX_DETECTION", "--type", "HITL", "--limit", "2"]
    found = json.loads(run(where, *asked, "--action", "MASK", "--sink-agent", "weather"))
    assert [one["correlationId"] for one in found] == ["call-2", "call-1"]
    assert run(where, "list", "--json", "--until", "2020-01-01T00:00:00Z") == "[]\n"


class Busy(LocalOperations):
    """The audit of a file in which something happens after every look."""

    def __init__(self, store: Store) -> None:
        self._trail = StoredAuditLog(store, now=clock.now)
        super().__init__(AuditApi(store, self._trail, now=clock.now).routes(), operator_request("busy"))

    def happen(self, name: str) -> None:
        self._trail.record(
            self._trail.row("COMMUNICATION_AUDIT", subscription(tenant="busy"), correlation_id=name)
        )

    async def call(
        self, operation: str, body: Any = None, *, if_match: object = None, **arguments: str | None
    ) -> Any:
        found = await super().call(operation, body, if_match=if_match, **arguments)
        self.happen("meanwhile")
        return found


def test_what_happens_meanwhile_lists_nothing_twice(tmp_path: Path):
    async def look(store: Store) -> list[str]:
        busy = Busy(store)
        for number in range(450):
            busy.happen(str(number))
        return [one["correlationId"] for one in await list_newest(busy, {}, 1_000)]

    found = with_store(str(tmp_path / "busy.db"), look, create=True)
    assert found == [str(number) for number in reversed(range(450))]


def test_a_call_is_followed_step_by_step(where):
    lines = run(where, "trace", "call-1").splitlines()
    assert lines[0].startswith("call-1: 2 steps in ")
    assert [line.split()[1:3] for line in lines[2:]] == [
        ["1.000", "REGEX_DETECTION"],
        ["-", "COMMUNICATION_AUDIT"],
    ]


@pytest.mark.parametrize("arguments", [["list"], ["trace", "held"]])
def test_it_is_told_who_decided(server: RunningServer, folder: Path, arguments: list[str]):
    admin = {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("root", "admin")}
    for where in (admin, {"PLACET_DB": str(folder / "cases.db")}):
        told = run(where, *arguments, "--tenant", "decided").splitlines()[-1]
        assert told.endswith("A person approved this message. (ada)")


def test_all_of_it_is_exported(where, tmp_path):
    lines = run(where, "export").splitlines()
    assert [json.loads(line)["correlationId"] for line in lines] == [
        f"call-{number}" for number in (0, 0, 1, 1, 2, 2)
    ]
    run(where, "export", "--type", "REGEX_DETECTION", "--output", str(tmp_path / "found.jsonl"))
    assert len((tmp_path / "found.jsonl").read_text().splitlines()) == 3


def test_an_earlier_export_outlasts_one_that_is_refused(where, tmp_path):
    earlier = tmp_path / "events.jsonl"
    earlier.write_text("what happened before\n")
    assert invoked(where, "export", "--type", "NOTHING", "--output", str(earlier)).exit_code == 1
    assert earlier.read_text() == "what happened before\n"
    run(where, "export", "--until", "2020-01-01T00:00:00Z", "--output", str(earlier))
    assert earlier.read_text() == ""


def test_a_place_where_no_file_can_be_is_said_in_a_sentence(where, tmp_path):
    refusal = invoked(where, "export", "--output", str(tmp_path / "nowhere" / "events.jsonl")).exception
    assert isinstance(refusal, PlacetError)
    assert refusal.message.endswith("events.jsonl cannot be written: No such file or directory.")


def test_the_trace_of_an_id_with_a_slash_is_not_said_to_be_a_server_without_a_relay(server: RunningServer):
    there = {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("ada")}
    refusal = invoked(there, "trace", "call/1").exception
    assert isinstance(refusal, CaseNotFound)
    assert refusal.__notes__ == ["`placet audit list --correlation-id` finds its events."]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trace", "foreign"], "There is no such trace."),
        (["list", "--type", "NOTHING"], "auditType: there is no NOTHING"),
        (["export", "--type", "NOTHING"], "auditType: there is no NOTHING"),
    ],
)
def test_what_is_refused_is_said_in_a_sentence(where, arguments: list[str], words: str):
    refusal = invoked(where, *arguments).exception
    assert isinstance(refusal, PlacetError)
    assert refusal.message.startswith(words)


def test_a_time_that_is_none_is_a_wrong_call(where):
    done = invoked(where, "list", "--since", "lately")
    assert (done.exit_code, "--since is a duration such as 2h" in done.stderr) == (2, True)


def test_the_file_is_read_as_the_tenant_that_is_named(server: RunningServer, folder: Path):
    found = run({}, "list", "--json", "--db", str(folder / "cases.db"), "--tenant", "other")
    assert [one["correlationId"] for one in json.loads(found)] == ["foreign"]


def test_a_key_is_not_sent_in_clear():
    refusal = invoked({}, "list", "--server", "http://placet.example", "--key", "k").exception
    assert isinstance(refusal, SettingsError)


def test_a_server_that_is_not_there_is_named():
    refusal = invoked({}, "export", "--server", "http://127.0.0.1:1", "--key", "k").exception
    assert isinstance(refusal, Unavailable)
    assert "http://127.0.0.1:1" in refusal.message


def test_the_command_itself_ends_as_every_other(folder: Path, server: RunningServer):
    done = placet(folder, "audit", "trace", "nothing", "--db", "cases.db")
    assert (done.returncode, done.stderr) == (1, "placet: There is no such trace.\n")
