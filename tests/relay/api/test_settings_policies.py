"""Policies of the settings file: seen like all others, tried like all others, and changed only there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from placet.cli.main import cli
from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.relay.policy.policy import parse_policy_file
from placet.relay.settings import RelaySettings
from tests.relay.api.policy_api_client import PolicyApiClient, open_policy_api
from tests.relay.policies.samples import NOW, build_regex_draft
from tests.server.running import running

pytestmark = pytest.mark.anyio
FILE = msgspec.json.encode(
    [
        {**build_regex_draft("secret"), "name": "No secrets"},
        {**build_regex_draft("rumour"), "name": "No rumours"},
    ]
)
SETTLED = parse_policy_file(FILE, name="policies.json", is_toml=False, now=NOW)
FIRST = SETTLED[0].policy_id


@pytest.fixture
async def policy_api() -> AsyncIterator[PolicyApiClient]:
    """An operator before an empty store, with two policies in the settings."""
    async with open_policy_api(settings_policies=SETTLED) as found:
        yield found


def list_names_and_origins(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["name"], one["origin"]) for one in page["content"]]


async def test_settings_policies_are_listed_after_stored_ones(policy_api: PolicyApiClient) -> None:
    await policy_api.request("POST", "/policies", {**build_regex_draft("x"), "name": "Ours"})
    page = await policy_api.request("GET", "/policies")
    assert list_names_and_origins(page) == [
        ("Ours", "store"),
        ("No secrets", "settings"),
        ("No rumours", "settings"),
    ]
    assert page["totalElements"] == 3
    assert list_names_and_origins(await policy_api.request("GET", "/policies", name="RUMOUR")) == [
        ("No rumours", "settings")
    ]
    assert list_names_and_origins(await policy_api.request("GET", "/policies", page="1", size="2")) == [
        ("No rumours", "settings")
    ]
    assert (
        list_names_and_origins(await policy_api.request("GET", "/policies", type="PRESIDIO_DETECTION")) == []
    )


async def test_settings_policy_has_one_version(policy_api: PolicyApiClient) -> None:
    found = await policy_api.request("GET", f"/policies/{FIRST}")
    assert (found["name"], found["version"], found["origin"]) == ("No secrets", "1", "settings")
    assert (await policy_api.request("GET", f"/policies/{FIRST}/versions"))["content"] == [found]
    assert await policy_api.request("GET", f"/policies/{FIRST}/versions/1") == found
    with pytest.raises(CaseNotFound):
        await policy_api.request("GET", f"/policies/{FIRST}/versions/2")


async def test_settings_policies_are_invisible_to_other_tenants(policy_api: PolicyApiClient) -> None:
    assert list_names_and_origins(await policy_api.request("GET", "/policies", tenant="north")) == []
    for method, body in (("GET", None), ("PUT", build_regex_draft("x")), ("DELETE", None)):
        with pytest.raises(CaseNotFound):
            await policy_api.request(method, f"/policies/{FIRST}", body, tenant="north")


@pytest.mark.parametrize(("method", "body"), [("PUT", build_regex_draft("x")), ("DELETE", None)])
async def test_settings_policies_cannot_be_changed_by_the_api(
    policy_api: PolicyApiClient, method: str, body: Any
) -> None:
    with pytest.raises(RelayConflict, match="settings file"):
        await policy_api.request(method, f"/policies/{FIRST}", body)
    assert (await policy_api.request("GET", f"/policies/{FIRST}"))["retiredAt"] is None
    assert await policy_api.events() == []


async def test_a_group_cannot_name_what_applies_to_every_message_already(policy_api: PolicyApiClient) -> None:
    entry = {"orderIndex": 0, "policy": {"policyId": FIRST}}
    with pytest.raises(ValidationFailed, match="already applies to every message"):
        await policy_api.request("POST", "/policy-groups", {"name": "mine", "policies": [entry]})
    with pytest.raises(ValidationFailed, match="which does not exist"):
        await policy_api.request(
            "POST", "/policy-groups", {"name": "mine", "policies": [entry]}, tenant="north"
        )


async def test_settings_policies_can_be_evaluated_and_replayed_by_id(policy_api: PolicyApiClient) -> None:
    asked = {"text": "a secret", "policy": {"policyId": FIRST}, "policyOnly": True}
    reply = await policy_api.request("POST", "/policies/evaluate", asked)
    assert reply["outcome"] == "BLOCK"
    assert reply["legs"][0]["decidedBy"]["policyId"] == FIRST
    done = await policy_api.request("POST", "/policies/replay", {"policy": {"policyId": FIRST}})
    assert done["policyName"] == "No secrets"
    with pytest.raises(CaseNotFound):
        await policy_api.request("POST", "/policies/evaluate", asked, tenant="north")


def test_settings_policies_show_their_origin(tmp_path: Path) -> None:
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
