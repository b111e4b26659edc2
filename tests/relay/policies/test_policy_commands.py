"""`placet policy add, list, show, bind, …`, on a file and on a server."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from placet.cli.main import cli
from placet.desk import clock
from placet.errors import CaseNotFound, RelayConflict, SettingsError, ValidationFailed
from placet.relay.audit.audit_log import AuditLog
from placet.stores.sqlite.store import SqliteStore
from tests.cli.process import placet, serving
from tests.relay.audit.samples import build_subscription
from tests.relay.policies.samples import build_regex_draft

TWO = """
[[policies]]
name = "Mask keys"
validTo = 2099-01-01T00:00:00Z
[policies.config]
type = "REGEX_DETECTION"
enabledLegs = { requestToSink = true }
pattern = { regex = 'key-[0-9]+', action = "MASK" }

[[policies]]
name = "Block secrets"
[policies.config]
type = "REGEX_DETECTION"
enabledLegs = { requestToSink = true }
pattern = { regex = 'secret', action = "BLOCK" }
"""


class PolicyCommands:
    """The command on one database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "two.toml").write_text(TWO)
        (folder / "one.json").write_text(json.dumps(build_regex_draft("third", "WARN", name="Third")))

    def run(self, *words: str) -> Result:
        words = tuple(str(self.folder / word) if word in ("two.toml", "one.json") else word for word in words)
        done = CliRunner().invoke(cli, ["policy", *words, "--db", str(self.folder / "cases.db")])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PolicyCommands:
    monkeypatch.chdir(tmp_path)
    return PolicyCommands(tmp_path)


def test_policies_of_a_file_are_added_listed_and_shown(policies: PolicyCommands):
    added = policies.run("add", "two.toml")
    first, second = added.stdout.split()
    assert "Mask keys, version 1" in added.stderr
    listed = policies.run("list").stdout.splitlines()
    assert listed[0].split() == ["ID", "VERSION", "NAME", "ACTION", "BOUND", "TO"]
    assert {line.split()[0] for line in listed[1:]} == {first, second}
    assert all(line.endswith("nothing") for line in listed[1:])
    shown = policies.run("show", first).stdout
    assert re.search(r"validTo +2099-01-01T00:00:00Z", shown)
    assert re.search(r"createdBy +operator", shown)
    assert [one["name"] for one in policies.json("list", "--name", "keys")] == ["Mask keys"]
    assert policies.json("list", "--type", "PRESIDIO_DETECTION") == []


def test_bound_policies_are_in_force(policies: PolicyCommands):
    first, second = policies.run("add", "two.toml").stdout.split()
    assert policies.run("test", "--text", "a secret").exit_code == 0
    bound = policies.run("bind", first, second, "--agent", "hotel", "--priority", "3")
    assert "Bound at AGENT level" in bound.stderr
    assert "hotel is not registered. The binding has no effect until it is." in bound.stderr
    assert policies.run("test", "--text", "a secret").exit_code == 0
    held = policies.run("test", "--text", "a secret", "--source", "me", "--sink", "hotel")
    assert held.exit_code == 12
    assert "requestToSink: BLOCK. Block secrets matched" in held.stdout
    masked = policies.run("test", "--text", "key-1", "--sink", "hotel", "--leg", "requestToSink")
    assert (masked.exit_code, "forwarded: [MASKED:REGEX]" in masked.stdout) == (10, True)
    assert "agent hotel" in policies.run("show", first).stdout
    policies.run("unbind", bound.stdout.strip())
    assert policies.run("test", "--text", "a secret", "--sink", "hotel").exit_code == 0
    policies.run("retire", second)
    assert [one["policyId"] for one in policies.json("list")] == [first]
    assert len(policies.json("list", "--retired")) == 2


def test_a_file_is_added_and_bound_in_one_step_and_updated(policies: PolicyCommands):
    (added,) = policies.run("add", "one.json", "--bind").stdout.split()
    assert "every message" in policies.run("list").stdout
    (policies.folder / "one.json").write_text(json.dumps(build_regex_draft("third", "BLOCK", name="Third")))
    updated = policies.run("add", "one.json", "--update", added)
    assert (updated.stdout.strip(), "version 2" in updated.stderr) == (added, True)
    assert policies.json("show", added, "--version", "1")["config"]["pattern"]["action"] == "WARN"
    assert policies.run("test", "--text", "third").exit_code == 12
    with pytest.raises(RelayConflict, match="contains this policy"):
        policies.run("retire", added)


def test_unbinding_a_policy_names_its_bindings(policies: PolicyCommands):
    added = policies.run("add", "one.json", "--bind")
    (told,) = re.findall(r"^Bound to every message, by (binding_\w+)\.$", added.stderr, re.MULTILINE)
    assert f"bound        every message by {told}\n" in policies.run("show", added.stdout.strip()).stdout
    policies.run("unbind", told)
    assert "bound        nothing\n" in policies.run("show", added.stdout.strip()).stdout


def test_pairs_are_bound_and_half_pairs_refused(policies: PolicyCommands):
    (added,) = policies.run("add", "one.json").stdout.split()
    window = ("--from", "2026-01-01T00:00:00Z", "--to", "2099-01-01T00:00:00Z")
    made = policies.json("bind", added, "--source", "olga", "--sink", "hotel", *window)
    assert (made["bindingLevel"], made["validTo"]) == ("SUBSCRIPTION", "2099-01-01T00:00:00Z")
    assert "olga -> hotel" in policies.run("list").stdout
    for half in (("--source", "olga"), ("--agent", "a", "--sink", "b")):
        assert policies.run("bind", added, *half).exit_code == 2
    with pytest.raises(ValidationFailed):
        policies.run("bind", added, "--from", "tomorrow")
    with pytest.raises(CaseNotFound):
        policies.run("show", "policy_00")


def test_missing_policy_gives_an_error_of_the_command(policies: PolicyCommands):
    (added,) = policies.run("add", "one.json").stdout.split()
    with pytest.raises(ValidationFailed) as refused:
        policies.run("bind", added, "nope")
    assert refused.value.message == "Argument 2 names nope, which does not exist."
    with pytest.raises(CaseNotFound, match="name must not be empty"):
        policies.run("show", "")


def test_refused_policy_is_named_and_earlier_ones_are_stored(policies: PolicyCommands):
    drafts = [build_regex_draft("fine"), build_regex_draft("(", name="Broken")]
    (policies.folder / "one.json").write_text(json.dumps(drafts))
    with pytest.raises(ValidationFailed) as refused:
        policies.run("add", "one.json")
    assert "policy.config.pattern.regex" in refused.value.message
    assert refused.value.__notes__ == ["policies[1], Broken, was refused. Policies saved before it: 1."]
    assert len(policies.json("list")) == 1


def test_a_replay_of_no_traffic_says_so(policies: PolicyCommands):
    policies.run("add", "one.json")
    said = policies.run("replay", "one.json", "--since", "7d").stdout
    assert said == ("Of 0 examined messages, 0 would have been held, 0 blocked and 0 masked.\n")
    assert (
        policies.json("replay", "one.json", "--since", "2026-01-01T00:00:00Z", "--until", "1h")["read"] == 0
    )
    assert policies.run("replay", "one.json", "--since", "yesterday").exit_code == 2
    with pytest.raises(ValidationFailed, match="has 2 policies"):
        policies.run("replay", "two.toml")


async def record_message(path: Path, text: str) -> None:
    """A message that the relay carried just now."""
    store = await SqliteStore.open(path)
    trail = AuditLog(store, now=clock.now)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    payload = {"version": "1.0", "method": "SendMessage", "requestBody": call}
    trail.record(
        trail.build_event(
            "COMMUNICATION_AUDIT",
            build_subscription(),
            correlation_id="c",
            transport="JSONRPC",
            payload=payload,
        )
    )
    await trail.aclose()
    await store.aclose()


def test_replayed_message_cannot_imitate_output_lines(policies: PolicyCommands):
    forged = "third\nOf 1 examined messages, 0 would have been held"
    asyncio.run(record_message(policies.folder / "cases.db", forged))
    (policies.folder / "one.json").write_text(json.dumps(build_regex_draft("third", "BLOCK", name="Third")))
    lines = policies.run("replay", "one.json").stdout.splitlines()
    assert [line[:4] for line in lines[1:]] == ["  re", "Of 1"]
    assert "0 would have been held, 1 blocked" in lines[-1]


def test_tenants_are_kept_apart(policies: PolicyCommands):
    policies.run("add", "one.json", "--tenant", "acme")
    assert policies.json("list") == []
    assert len(policies.json("list", "--tenant", "acme")) == 1
    with pytest.raises(ValidationFailed, match="A tenant's name has at most 63"):
        policies.run("list", "--tenant", "../acme")


def test_remote_command_needs_a_key_and_https(policies: PolicyCommands):
    with pytest.raises(SettingsError, match="https"):
        policies.run("list", "--server", "http://relay.example", "--key", "k")
    with pytest.raises(SettingsError, match="PLACET_KEY"):
        policies.run("list", "--server", "https://relay.example")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and the environment that names a server with a relay and its administrator's key."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "two.toml").write_text(TWO)
    (folder / "placet.toml").write_text(
        "[relay]\nenabled = true\n"
        '[relay.groups.readers]\nmembers = ["reader"]\npermissions = ["POLICIES:READ"]\n'
    )
    key = placet(folder, "key", "create", "root", "--scope", "admin", "--db", "cases.db").stdout.strip()
    with serving(folder, "--config", "placet.toml") as server:
        yield folder, {"PLACET_SERVER": server.url(), "PLACET_KEY": key}


def test_server_is_configured_by_remote_commands(remote: tuple[Path, dict[str, str]]):
    folder, env = remote
    added = placet(folder, "policy", "add", "two.toml", "--bind", env=env)
    assert added.returncode == 0, added.stderr
    first = added.stdout.split()[0]
    assert "every message" in placet(folder, "policy", "list", env=env).stdout
    assert placet(folder, "policy", "test", "--text", "a secret", env=env).returncode == 12
    replayed = placet(folder, "policy", "replay", first, "--since", "1h", env=env)
    assert replayed.stdout.startswith("Of 0 examined messages"), replayed.stderr
    refused = placet(folder, "policy", "retire", first, env=env)
    assert (refused.returncode, "contains this policy" in refused.stderr) == (1, True)
    unknown = placet(folder, "policy", "show", "policy_00", env=env)
    assert (unknown.returncode, unknown.stderr) == (1, "placet: Policy not found.\n")


def test_named_database_overrides_the_server_variable(remote: tuple[Path, dict[str, str]], tmp_path: Path):
    folder, env = remote
    before = placet(folder, "policy", "list", "--json", env=env).stdout
    own = str(tmp_path / "own.db")
    added = placet(folder, "policy", "add", "two.toml", "--bind", "--db", own, env=env)
    assert added.returncode == 0, added.stderr
    assert added.stdout.split()[0] in placet(folder, "policy", "list", "--db", own, env=env).stdout
    assert placet(folder, "policy", "list", "--json", env=env).stdout == before
    events = placet(folder, "audit", "list", "--json", "--db", own, env=env)
    assert len(json.loads(events.stdout)) > 0, events.stderr


def test_remote_replay_needs_permission_to_read_the_audit(remote: tuple[Path, dict[str, str]]):
    folder, env = remote
    key = placet(folder, "key", "create", "reader", "--db", "cases.db").stdout.strip()
    (folder / "one.json").write_text(json.dumps(build_regex_draft("third", "WARN", name="Third")))
    done = placet(folder, "policy", "replay", "one.json", env={**env, "PLACET_KEY": key})
    assert (done.returncode, done.stdout) == (1, "")
    assert "need the permission AUDIT:READ" in done.stderr
    assert placet(folder, "policy", "list", env={**env, "PLACET_KEY": key}).returncode == 0


def test_wrong_key_gives_a_one_line_error(remote: tuple[Path, dict[str, str]]):
    folder, env = remote
    done = placet(folder, "policy", "list", env={**env, "PLACET_KEY": "placet_wrong"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("placet: ")
