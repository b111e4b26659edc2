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
from placet.cli.database import run_with_store
from placet.cli.local_relay import build_operator_request
from placet.cli.main import cli
from placet.desk import clock
from placet.errors import CaseNotFound, PlacetError, SettingsError, Unavailable
from placet.http.operations import LocalOperations
from placet.ports.store import Store
from placet.relay.audit.audit_log import AuditLog
from placet.relay.settings import GroupSettings, RelaySettings
from placet.relay.transports.admin_api.audit import AuditApi
from placet.stores.sqlite import SqliteStore
from tests.cli.process import placet
from tests.relay.audit.samples import build_subscription
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
    trail = AuditLog(store, now=lambda: moment)
    for number in range(3):
        way, name = build_subscription(), f"call-{number}"
        trail.record(
            trail.build_event(
                "COMMUNICATION_AUDIT", way, correlation_id=name, action="LOG", message="Passed."
            )
        )
        trail.record(
            trail.build_event(
                "REGEX_DETECTION",
                way,
                correlation_id=name,
                action="MASK",
                message="\x1b[31mfound\u202e",
                took_for=timedelta(milliseconds=1),
            )
        )
    resolved = {"resolution": "APPROVED", "resolvedBy": "ada"}
    decided = trail.build_event(
        "HITL_RESOLUTION",
        build_subscription(tenant="decided"),
        correlation_id="held",
        message="A person approved this message.",
        metadata=resolved,
    )
    trail.record(decided)
    trail.record(trail.build_event("HITL", build_subscription(tenant="other"), correlation_id="foreign"))
    await trail.aclose()
    await store.aclose()


@pytest.fixture(scope="module", params=["server", "file"])
def audit_environment(request: pytest.FixtureRequest, server: RunningServer, folder: Path) -> Where:
    """The environment that says where the audit is."""
    if request.param == "file":
        return {"PLACET_DB": str(folder / "cases.db")}
    return {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("ada")}


def invoke_audit(where: Where, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments], env=where)


def run(where: Where, *arguments: str) -> str:
    done = invoke_audit(where, *arguments)
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_events_are_listed_and_nothing_in_them_drives_the_terminal(audit_environment):
    lines = run(audit_environment, "list").splitlines()
    assert lines[0].split() == ["AT", "TYPE", "ACTION", "ROUTE", "CORRELATION", "ID", "MESSAGE"]
    assert len(lines) == 7
    assert "REGEX_DETECTION      MASK    trip-planner -> weather  call-2" in lines[1]
    assert not {"\x1b", "\u202e"} & set("".join(lines))


def test_flags_filter_the_events(audit_environment):
    asked = ["list", "--json", "--since", "1h", "--type", "REGEX_DETECTION", "--type", "HITL", "--limit", "2"]
    found = json.loads(run(audit_environment, *asked, "--action", "MASK", "--sink-agent", "weather"))
    assert [one["correlationId"] for one in found] == ["call-2", "call-1"]
    assert run(audit_environment, "list", "--json", "--until", "2020-01-01T00:00:00Z") == "[]\n"


class BusyAudit(LocalOperations):
    """The audit of a file in which something happens after every look."""

    def __init__(self, store: Store) -> None:
        self._trail = AuditLog(store, now=clock.now)
        super().__init__(AuditApi(store, self._trail, now=clock.now).routes(), build_operator_request("busy"))

    def record_event(self, name: str) -> None:
        self._trail.record(
            self._trail.build_event(
                "COMMUNICATION_AUDIT", build_subscription(tenant="busy"), correlation_id=name
            )
        )

    async def call(
        self, operation: str, body: Any = None, *, if_match: object = None, **arguments: str | None
    ) -> Any:
        found = await super().call(operation, body, if_match=if_match, **arguments)
        self.record_event("meanwhile")
        return found


def test_events_recorded_during_a_list_are_not_listed_twice(tmp_path: Path):
    async def look(store: Store) -> list[str]:
        busy = BusyAudit(store)
        for number in range(450):
            busy.record_event(str(number))
        return [one["correlationId"] for one in await list_newest(busy, {}, 1_000)]

    found = run_with_store(str(tmp_path / "busy.db"), look, create=True)
    assert found == [str(number) for number in reversed(range(450))]


def test_a_call_is_followed_step_by_step(audit_environment):
    lines = run(audit_environment, "trace", "call-1").splitlines()
    assert lines[0].startswith("call-1: 2 steps in ")
    assert [line.split()[1:3] for line in lines[2:]] == [
        ["1.000", "REGEX_DETECTION"],
        ["-", "COMMUNICATION_AUDIT"],
    ]


@pytest.mark.parametrize("arguments", [["list"], ["trace", "held"]])
def test_trace_names_the_person_who_decided(server: RunningServer, folder: Path, arguments: list[str]):
    admin = {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("root", "admin")}
    for where in (admin, {"PLACET_DB": str(folder / "cases.db")}):
        told = run(where, *arguments, "--tenant", "decided").splitlines()[-1]
        assert told.endswith("A person approved this message. (ada)")


def test_every_event_is_exported(audit_environment, tmp_path):
    lines = run(audit_environment, "export").splitlines()
    assert [json.loads(line)["correlationId"] for line in lines] == [
        f"call-{number}" for number in (0, 0, 1, 1, 2, 2)
    ]
    run(audit_environment, "export", "--type", "REGEX_DETECTION", "--output", str(tmp_path / "found.jsonl"))
    assert len((tmp_path / "found.jsonl").read_text().splitlines()) == 3


def test_failed_export_keeps_the_earlier_file(audit_environment, tmp_path):
    earlier = tmp_path / "events.jsonl"
    earlier.write_text("what happened before\n")
    assert (
        invoke_audit(audit_environment, "export", "--type", "NOTHING", "--output", str(earlier)).exit_code
        == 1
    )
    assert earlier.read_text() == "what happened before\n"
    run(audit_environment, "export", "--until", "2020-01-01T00:00:00Z", "--output", str(earlier))
    assert earlier.read_text() == ""


def test_unwritable_export_path_is_explained_in_one_sentence(audit_environment, tmp_path):
    refusal = invoke_audit(
        audit_environment, "export", "--output", str(tmp_path / "nowhere" / "events.jsonl")
    ).exception
    assert isinstance(refusal, PlacetError)
    assert refusal.message.endswith("events.jsonl cannot be written: No such file or directory.")


def test_trace_of_an_id_with_a_slash_is_not_found(server: RunningServer):
    there = {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("ada")}
    refusal = invoke_audit(there, "trace", "call/1").exception
    assert isinstance(refusal, CaseNotFound)
    assert refusal.__notes__ == ["`placet audit list --correlation-id` finds its events."]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trace", "foreign"], "Trace not found."),
        (["list", "--type", "NOTHING"], "auditType: NOTHING does not exist"),
        (["export", "--type", "NOTHING"], "auditType: NOTHING does not exist"),
    ],
)
def test_refusal_is_explained_in_one_sentence(audit_environment, arguments: list[str], words: str):
    refusal = invoke_audit(audit_environment, *arguments).exception
    assert isinstance(refusal, PlacetError)
    assert refusal.message.startswith(words)


@pytest.mark.parametrize("text", ["lately", "0001-01-01T00:00:00+14:00"])
def test_invalid_time_is_a_usage_error(audit_environment, text: str):
    done = invoke_audit(audit_environment, "list", "--since", text)
    assert (done.exit_code, "--since: use a timestamp such as" in done.stderr) == (2, True)


def test_the_file_is_read_as_the_tenant_that_is_named(server: RunningServer, folder: Path):
    found = run({}, "list", "--json", "--db", str(folder / "cases.db"), "--tenant", "other")
    assert [one["correlationId"] for one in json.loads(found)] == ["foreign"]


def test_key_is_not_sent_over_plain_http():
    refusal = invoke_audit({}, "list", "--server", "http://placet.example", "--key", "k").exception
    assert isinstance(refusal, SettingsError)


def test_unreachable_server_is_named():
    refusal = invoke_audit({}, "export", "--server", "http://127.0.0.1:1", "--key", "k").exception
    assert isinstance(refusal, Unavailable)
    assert "http://127.0.0.1:1" in refusal.message


def test_command_exits_like_every_other_command(folder: Path, server: RunningServer):
    done = placet(folder, "audit", "trace", "nothing", "--db", "cases.db")
    assert (done.returncode, done.stderr) == (1, "placet: Trace not found.\n")
