"""Whatever the API's description allows or forbids, the server answers as described and never breaks."""

import re
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from placet.server.api_description import build_openapi_document
from placet.testing.contracts.grant_store import create_case_with_grants
from placet.testing.samples import sample_grant
from tests.server.running import RunningServer

SOUND_ID = re.compile(r"[a-zA-Z0-9_-]+")
# Nobody listens there; what matters is that a delivery exists.
NOWHERE = "http://127.0.0.1:9/"
CONFIG = schemathesis.Config.from_dict(
    {
        # A draft can fit its schema and still ask for what cannot be asked; a 400 is no contradiction then.
        "checks": {"positive_data_acceptance": {"enabled": False}},
        # Credentials are ours to present: made-up ones would be replaced by good ones unseen.
        "generation": {"deterministic": True, "database": "none", "with-security-parameters": False},
    }
)
DOCUMENT: dict[str, Any] = msgspec.json.decode(
    msgspec.json.encode(build_openapi_document("http://127.0.0.1"))
)
API = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


class Targets:
    """Things that exist, for requests that would otherwise only ever hear 404."""

    def __init__(self, server: RunningServer, client: httpx.Client) -> None:
        self._server = server
        self._client = client

    def aim(self, case: schemathesis.Case) -> str:
        """Point every other request with a sound id at something real; returns the credential to present."""
        names = case.path_parameters
        verb = case.path.rpartition("/")[2]
        given = str(next(iter(names.values()), ""))
        if not SOUND_ID.fullmatch(given) or len(given) % 2:
            return self._server.api_key
        if "delivery_id" in names:
            names["delivery_id"] = self._delivery()
            return self._server.api_key
        if "grant_id" in names:
            names["grant_id"] = self._grant()
            return self._server.api_key
        hitl = self._open()
        names["case_id"] = hitl["case_id"]
        if verb == "events":  # the stream of an open case would not end
            self._client.post(f"/v1/reviews/{hitl['case_id']}/cancel").raise_for_status()
        return hitl["submit_token"] if verb in ("respond", "submit") else self._server.api_key

    def _open(self, **draft: Any) -> dict[str, Any]:
        inline = ["approve", "reject"]
        return self._server.open(self._client, type="approval", inline_actions=inline, **draft)

    def _grant(self) -> str:
        grant = sample_grant("")
        self._server.run(create_case_with_grants(self._server.parts.store, grant))
        return grant.id

    def _delivery(self) -> str:
        hitl = self._open(callback_url=NOWHERE)
        self._client.post(f"/v1/reviews/{hitl['case_id']}/cancel").raise_for_status()
        listed = self._client.get("/v1/deliveries", params={"case_id": hitl["case_id"]}).json()
        return listed["deliveries"][0]["id"]


@pytest.fixture(scope="module")
def targets(server: RunningServer):
    with server.client(server.api_key) as client:
        yield Targets(server, client)


@API.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_server_keeps_to_its_description(
    case: schemathesis.Case, server: RunningServer, targets: Targets
):
    credential = targets.aim(case)
    case.call_and_validate(base_url=server.url, headers={"Authorization": f"Bearer {credential}"})
