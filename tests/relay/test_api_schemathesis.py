"""Whatever the description of the relay's API allows or forbids, the server answers as described."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from assent.relay.registered import RelaySettings
from tests.relay.described import relay_document
from tests.server.running import RunningServer, running

CONFIG = schemathesis.Config.from_dict(
    {
        # A draft can fit its schema and still be one that this server cannot follow.
        "checks": {"positive_data_acceptance": {"enabled": False}},
        "generation": {"deterministic": True, "database": "none", "with-security-parameters": False},
    }
)
API = schemathesis.openapi.from_dict(relay_document(), config=CONFIG)
POLICY: dict[str, Any] = {
    "name": "Secrets",
    "config": {
        "type": "REGEX_DETECTION",
        "enabledLegs": {"requestToSink": True},
        "pattern": {"regex": "secret", "action": "BLOCK"},
    },
}


class Targets:
    """Things that exist, for requests that would otherwise only ever hear 404."""

    def __init__(self, admin: httpx.Client) -> None:
        self._admin = admin
        self._made = 0

    def aim(self, case: schemathesis.Case) -> None:
        """Point every other request at something real."""
        self._made += 1
        if self._made % 2 or not case.path_parameters:
            return
        top = case.path.removeprefix("/relay/v1/").partition("/{")[0]
        make = getattr(self, "_" + top.replace("/", "_").replace("-", "_"), None)
        if make is not None:
            case.path_parameters.update(make())
            if case.query:
                case.query.pop("tenantId", None)

    def _post(self, path: str, **draft: Any) -> dict[str, Any]:
        response = self._admin.post(f"/relay/v1/{path}", json=draft)
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    def _registry_agents(self) -> dict[str, str]:
        name = f"agent-{self._made}"
        return {"agentId": self._post("registry/agents", agentId=name, url="https://a.example")["agentId"]}

    def _registry_callers(self) -> dict[str, str]:
        agent = self._registry_agents()["agentId"]
        made = self._post("registry/callers", name=f"caller-{self._made}", agents=[agent])
        return {"name": made["name"]}

    def _registry_subscriptions(self) -> dict[str, str]:
        return {"source": self._registry_callers()["name"], "sink": f"agent-{self._made}"}

    def _groups(self) -> dict[str, str]:
        return {"name": self._post("groups", name=f"group-{self._made}")["name"]}

    def _policies(self) -> dict[str, str]:
        return {"policyId": self._post("policies", **POLICY)["policyId"], "version": "1"}

    def _policy_groups(self) -> dict[str, str]:
        entry = {"orderIndex": 0, "policy": {"policyId": self._policies()["policyId"]}}
        return {"id": self._post("policy-groups", name="Group", policies=[entry])["id"]}

    def _policy_bindings(self) -> dict[str, str]:
        group = self._policy_groups()["id"]
        return {"id": self._post("policy-bindings", groupId=group, bindingLevel="TENANT")["id"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("relay"), relay=RelaySettings(enabled=True)) as found:
        yield found


@pytest.fixture(scope="module")
def admin(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.create_key("root", "admin")) as client:
        yield client


@pytest.fixture(scope="module")
def targets(admin: httpx.Client) -> Targets:
    return Targets(admin)


@API.parametrize()
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_relays_api_keeps_to_its_description(
    case: schemathesis.Case, server: RunningServer, admin: httpx.Client, targets: Targets
) -> None:
    targets.aim(case)
    case.call_and_validate(base_url=server.url, headers={"Authorization": admin.headers["Authorization"]})
