"""Policies of the settings file: seen like all others, tried like all others, and changed only there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from placet.cli.main import cli
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.relay.policies.policy_file import parse_policy_file
from placet.relay.settings import RelaySettings
from tests.relay.api.policy_desk import PolicyDesk, policy_desk
from tests.relay.policies.samples import NOW, regex_draft
from tests.server.running import running

pytestmark = pytest.mark.anyio
FILE = msgspec.json.encode(
    [{**regex_draft("secret"), "name": "No secrets"}, {**regex_draft("rumour"), "name": "No rumours"}]
)
SETTLED = parse_policy_file(FILE, name="policies.json", is_toml=False, now=NOW)
FIRST = SETTLED[0].policy_id


@pytest.fixture
async def desk() -> AsyncIterator[PolicyDesk]:
    """An operator before an empty store, with two policies in the settings."""
    async with policy_desk(settings_policies=SETTLED) as found:
        yield found


def told(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["name"], one["origin"]) for one in page["content"]]


async def test_they_are_listed_after_those_that_were_written_here(desk: PolicyDesk) -> None:
    await desk.ask("POST", "/policies", {**regex_draft("x"), "name": "Ours"})
    page = await desk.ask("GET", "/policies")
    assert told(page) == [("Ours", "store"), ("No secrets", "settings"), ("No rumours", "settings")]
    assert page["totalElements"] == 3
    assert told(await desk.ask("GET", "/policies", name="RUMOUR")) == [("No rumours", "settings")]
    assert told(await desk.ask("GET", "/policies", page="1", size="2")) == [("No rumours", "settings")]
    assert told(await desk.ask("GET", "/policies", type="PRESIDIO_DETECTION")) == []


async def test_each_is_looked_at_with_its_one_version(desk: PolicyDesk) -> None:
    found = await desk.ask("GET", f"/policies/{FIRST}")
    assert (found["name"], found["version"], found["origin"]) == ("No secrets", "1", "settings")
    assert (await desk.ask("GET", f"/policies/{FIRST}/versions"))["content"] == [found]
    assert await desk.ask("GET", f"/policies/{FIRST}/versions/1") == found
    with pytest.raises(CaseNotFound):
        await desk.ask("GET", f"/policies/{FIRST}/versions/2")


async def test_no_other_tenant_sees_them(desk: PolicyDesk) -> None:
    assert told(await desk.ask("GET", "/policies", tenant="north")) == []
    for method, body in (("GET", None), ("PUT", regex_draft("x")), ("DELETE", None)):
        with pytest.raises(CaseNotFound):
            await desk.ask(method, f"/policies/{FIRST}", body, tenant="north")


@pytest.mark.parametrize(("method", "body"), [("PUT", regex_draft("x")), ("DELETE", None)])
async def test_only_the_file_changes_them(desk: PolicyDesk, method: str, body: Any) -> None:
    with pytest.raises(RelayConflict, match="settings file"):
        await desk.ask(method, f"/policies/{FIRST}", body)
    assert (await desk.ask("GET", f"/policies/{FIRST}"))["retiredAt"] is None
    assert await desk.events() == []


async def test_a_group_cannot_name_what_applies_to_every_message_already(desk: PolicyDesk) -> None:
    entry = {"orderIndex": 0, "policy": {"policyId": FIRST}}
    with pytest.raises(ValidationFailed, match="every message already"):
        await desk.ask("POST", "/policy-groups", {"name": "mine", "policies": [entry]})
    with pytest.raises(ValidationFailed, match="no such policy"):
        await desk.ask("POST", "/policy-groups", {"name": "mine", "policies": [entry]}, tenant="north")


async def test_they_are_tried_and_replayed_by_their_id(desk: PolicyDesk) -> None:
    asked = {"text": "a secret", "policy": {"policyId": FIRST}, "alone": True}
    reply = await desk.ask("POST", "/policies/evaluate", asked)
    assert reply["outcome"] == "BLOCK"
    assert reply["legs"][0]["decidedBy"]["policyId"] == FIRST
    done = await desk.ask("POST", "/policies/replay", {"policy": {"policyId": FIRST}})
    assert done["policyName"] == "No secrets"
    with pytest.raises(CaseNotFound):
        await desk.ask("POST", "/policies/evaluate", asked, tenant="north")


def test_an_operator_sees_where_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "policies.json").write_bytes(FILE)
    relay = RelaySettings(enabled=True, policies=str(tmp_path / "policies.json"))
    with running(tmp_path, relay=relay) as server:
        there = {"PLACET_SERVER": server.url, "PLACET_KEY": server.create_key("root", "admin")}
        listed = CliRunner().invoke(cli, ["policy", "list"], env=there)
        shown = CliRunner().invoke(cli, ["policy", "show", FIRST], env=there)
        refused = CliRunner().invoke(cli, ["policy", "retire", FIRST], env=there)
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [one.policy_id for one in SETTLED]
    assert "every message, by the settings" in listed.stdout
    assert "origin       settings\n" in shown.stdout
    assert "settings file" in str(refused.exception)
