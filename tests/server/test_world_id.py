"""World ID as a provider: a proof is taken if World confirms it and it was made for this answer."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from placet.verification.keccak import keccak_256
from placet.verification.settings import VerificationSettings, WorldIdSettings
from placet.verification.world_id import build_action, build_signal, hash_signal
from tests.server.running import RunningServer, running

RP_ID = "rp_0123456789abcdef"


class World(BaseHTTPRequestHandler):
    """World's verification API, as far as it is needed: it believes one proof."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_good = self.path == f"/api/v4/verify/{RP_ID}" and sent["responses"][0]["proof"] == "good"
        status = 200 if is_good else 500 if sent["responses"][0]["proof"] == "outage" else 400
        body = json.dumps({"success": is_good, "action": sent["action"]}).encode()
        if sent["responses"][0]["proof"] == "garbled":
            status, body = 200, b"<html>"
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), World) as world:
        threading.Thread(target=world.serve_forever, daemon=True).start()
        settings = VerificationSettings(
            world_id=WorldIdSettings(rp_id=RP_ID, url=f"http://127.0.0.1:{world.server_port}")
        )
        with running(tmp_path_factory.mktemp("world"), verification=settings) as server:
            yield server
        world.shutdown()


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as client:
        yield client


def ask(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    need = {"proof_type": "proof_of_human", "provider": "world_id", "min_assurance": "high"}
    binding = {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True}
    policy = {
        "mode": "required",
        "required_for": ["inline_submit"],
        "requirements": {"any_of": [{"all_of": [need]}]},
        "binding": {**binding, "challenge": "nonce"},
        "fallback": {"on_missing": "browser_review", "on_invalid": "browser_review"},
    }
    return server.open(client, inline_actions=["confirm", "cancel"], verification_policy=policy)


def prove(case_id: str, action: str = "confirm", challenge: str = "nonce", proof: str = "good") -> Any:
    """What a World ID app returns for this answer."""
    signal = hash_signal(build_signal(case_id, action, challenge))
    return {
        "protocol_version": "4.0",
        "action": build_action(case_id, action),
        "responses": [{"identifier": "orb", "proof": proof, "signal_hash": f"{signal:#066x}"}],
    }


def present(server: RunningServer, hitl: dict[str, Any], presentation: Any) -> httpx.Response:
    evidence = {
        "proof_type": "proof_of_human",
        "provider": "world_id",
        "format": "provider_opaque",
        "presentation": presentation,
        "binding": {"case_id": hitl["case_id"], "action": "confirm", "challenge": "nonce"},
    }
    return server.press(hitl, "confirm", verification_evidence=[evidence])


@pytest.mark.spec("0.8-world-id")
def test_an_inline_answer_with_a_proof_of_world_id_is_taken(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = ask(server, client)
    assert present(server, hitl, prove(hitl["case_id"])).status_code == 200
    result = client.get(hitl["poll_url"]).json()["submission_context"]["verification_result"]
    assert (result["satisfied"], result["verified_evidence"][0]["assurance_level"]) == (True, "high")


@pytest.mark.spec("0.8-world-id")
def test_a_proof_made_for_anything_else_is_refused(server: RunningServer, client: httpx.Client) -> None:
    hitl = ask(server, client)
    good = prove(hitl["case_id"])
    for presentation in (
        prove("review_other"),
        prove(hitl["case_id"], action="cancel"),
        prove(hitl["case_id"], challenge="another"),
        {**good, "responses": []},
        {**good, "responses": [{**good["responses"][0], "signal_hash": "0x0"}]},
        {**good, "responses": [{**good["responses"][0], "signal_hash": None}]},
        *(prove(hitl["case_id"], proof=proof) for proof in ("bad", "outage", "garbled")),
        "not an object",
    ):
        refused = present(server, hitl, presentation)
        assert (refused.status_code, refused.json()["error"]) == (403, "verification_failed")
    server.advance(seconds=301)
    assert present(server, hitl, good).status_code == 403
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        (b"a" * 200, "96ea54061def936c4be90b518992fdc6f12f535068a256229aca54267b4d084d"),
    ],
)
def test_keccak_has_the_published_values(data: bytes, digest: str) -> None:
    assert keccak_256(data).hex() == digest
