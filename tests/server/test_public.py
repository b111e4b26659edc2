"""What anyone may read: discovery, keys, health, numbers; and what the server says when it cannot work."""

import asyncio
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import KeySet
from prometheus_client.parser import text_string_to_metric_families

from placet import verify_result
from placet.bootstrap.storage import open_store
from placet.errors import Unavailable
from placet.protocol.versions import SPEC_VERSIONS
from placet.signing.stored_signer import revoke_key
from placet.testing.clock import DAYBREAK
from tests.cli.process import COMMAND, serving
from tests.server.running import RunningServer, running
from tests.signing.polls import header_of
from tests.waiting import PATIENCE_S, eventually

DRAFT = {"type": "confirmation", "prompt": "Go?", "inline_actions": ["confirm"]}


def read_metrics(client: httpx.Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def anonymous_client(server: RunningServer) -> Any:
    with server.client() as client:
        yield client


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_discovery_speaks_every_version(
    server: RunningServer, anonymous_client: httpx.Client, version: str
) -> None:
    response = anonymous_client.get(f"/.well-known/hitl.json?version={version}")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "public, max-age=300"
    found = response.json()["hitl_protocol"]
    assert found["spec_version"] == version
    assert found["endpoints"]["reviews_base"] == f"{server.url}/v1/reviews"
    assert found["endpoints"]["review_page_base"] == f"{server.url}/review"
    assert found["capabilities"]["review_types"][0] == "approval"


def test_discovery_without_a_version_is_the_newest(anonymous_client: httpx.Client) -> None:
    assert anonymous_client.get("/.well-known/hitl.json").json()["hitl_protocol"]["spec_version"] == "0.9"


@pytest.mark.parametrize("version", ["", "1.0", "0.9 ", "nine", "0.10", "x" * 3000])
def test_discovery_of_a_version_that_is_not_there_is_refused(
    anonymous_client: httpx.Client, version: str
) -> None:
    refused = anonymous_client.get("/.well-known/hitl.json", params={"version": version})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("name", ["spec_version", "Version", "vesion"])
def test_discovery_does_not_answer_a_misnamed_version_with_the_newest(
    anonymous_client: httpx.Client, name: str
) -> None:
    refused = anonymous_client.get("/.well-known/hitl.json", params={name: "0.5"})
    assert refused.status_code == 400
    assert "did you mean `version`?" in refused.json()["message"]


def test_what_discovery_promises_is_there(server: RunningServer, anonymous_client: httpx.Client) -> None:
    found = anonymous_client.get("/.well-known/hitl.json").json()["hitl_protocol"]
    for address in (found["endpoints"]["well_known"], *found["examples"].values()):
        assert anonymous_client.get(address).status_code == 200


def test_published_keys_verify_results_and_hold_nothing_secret(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, **DRAFT)
    server.press(hitl, "confirm")
    keys = client.get("/.well-known/jwks.json").json()
    assert KeySet.import_key_set(keys).keys
    assert not any({"d", "p", "q"} & key.keys() for key in keys["keys"])
    assert verify_result(client.get(hitl["poll_url"]).json(), keys).action == "confirm"


def test_a_revoked_signing_key_does_not_live_on_in_a_cache(anonymous_client: httpx.Client) -> None:
    response = anonymous_client.get("/.well-known/jwks.json")
    assert response.headers["cache-control"] == "no-store"
    assert "etag" not in response.headers


def test_a_running_server_drops_a_revoked_signing_key_although_it_could_not_read_the_keys_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("placet.bootstrap.server.KEY_RETRY_DELAY_S", 0.01)
    with running(tmp_path) as server, server.client(server.api_key) as client:
        (stolen,) = read_kids(client)
        read = server.parts.store.list_signing_keys
        failures = [Unavailable("The disk is busy."), Unavailable("The disk is busy.")]

        async def read_at_the_third_attempt() -> Any:
            if failures:
                raise failures.pop()
            return await read()

        monkeypatch.setattr(server.parts.store, "list_signing_keys", read_at_the_third_attempt)
        asyncio.run(revoke_elsewhere(server.parts.settings.db, stolen))
        eventually(lambda: stolen not in read_kids(client))
        assert not failures
        hitl = server.open(client, **DRAFT)
        server.press(hitl, "confirm")
        signature = client.get(hitl["poll_url"]).json()["result"]["signature"]["value"]
    assert header_of(signature)["kid"] != stolen
    assert caplog.text.count("signing_keys_refresh_failed error=The disk is busy.") == 2


def read_kids(client: httpx.Client) -> list[str]:
    return [key["kid"] for key in client.get("/.well-known/jwks.json").json()["keys"]]


async def revoke_elsewhere(db: str, kid: str) -> None:
    """Revoke a signing key as `placet signing revoke` does."""
    store = await open_store(db)
    try:
        await revoke_key(store, kid, now=DAYBREAK)
    finally:
        await store.aclose()


def test_a_server_that_signs_nothing_says_so(tmp_path: Path) -> None:
    with running(tmp_path, signing="none") as server, server.client(server.api_key) as client:
        assert client.get("/.well-known/jwks.json").json() == {"keys": []}
        capabilities = client.get("/.well-known/hitl.json").json()["hitl_protocol"]["capabilities"]
        assert capabilities["supports_signatures"] is False
        hitl = server.open(client, **DRAFT)
        server.press(hitl, "confirm")
        assert "signature" not in client.get(hitl["poll_url"]).json()["result"]


def test_what_was_signed_before_signing_was_switched_off_still_verifies(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, inline_actions=["confirm", "cancel"])
        server.press(hitl, "confirm")
        poll = client.get(hitl["poll_url"]).json()
    with running(tmp_path, signing="none") as server, server.client() as client:
        assert verify_result(poll, client.get("/.well-known/jwks.json").json()).action == "confirm"


@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA"])
def test_results_are_signed_as_the_setting_says(tmp_path: Path, algorithm: str) -> None:
    with running(tmp_path, signing=algorithm) as server, server.client(server.api_key) as client:
        hitl = server.open(client, **DRAFT)
        server.press(hitl, "confirm")
        poll = client.get(hitl["poll_url"]).json()
        assert poll["result"]["signature"]["algorithm"] == algorithm
        assert verify_result(poll, client.get("/.well-known/jwks.json").json()).algorithm == algorithm


def test_the_description_has_a_readable_page(anonymous_client: httpx.Client) -> None:
    page = anonymous_client.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "<code>POST /v1/cases</code> with your API key. You get <strong>202</strong>" in page.text
    assert "`" not in page.text
    assert "<script" not in page.text


def test_styles_are_asked_for_once(anonymous_client: httpx.Client) -> None:
    address = re.search(r'href="(/static/[^"]+\.css)"', anonymous_client.get("/docs").text)
    assert address is not None
    style = anonymous_client.get(address[1])
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    again = anonymous_client.get(address[1], headers={"If-None-Match": style.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_healthy_server_says_so(anonymous_client: httpx.Client) -> None:
    assert anonymous_client.get("/healthz").json() == {"status": "ok"}
    assert anonymous_client.get("/readyz").json() == {"status": "ready"}
    assert anonymous_client.head("/healthz").status_code == 200


def test_metrics_count_what_happened(server: RunningServer, client: httpx.Client) -> None:
    before = read_metrics(client)
    hitl = server.open(client, **DRAFT)
    client.get(hitl["poll_url"])
    server.press(hitl, "confirm")
    client.get("/v1/reviews/review_nothing/status")
    after = read_metrics(client)

    def grew(name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return after.get(key, 0) - before.get(key, 0)

    assert grew("placet_events_total", event="review.completed") == 1
    assert grew("placet_events_total", event="review.created") == 1
    assert grew("placet_http_requests_total", route="/v1/cases", status="202") == 1
    assert grew("placet_http_requests_total", route="status", status="200") == 1
    assert grew("placet_http_requests_total", route="status", status="404") == 1
    assert grew("placet_http_request_seconds_count", route="respond") == 1
    assert ("placet_open_streams", ()) in after


def test_strangers_cannot_make_the_metrics_grow(anonymous_client: httpx.Client) -> None:
    anonymous_client.get("/first")
    before = len(read_metrics(anonymous_client))
    for number in range(50):
        anonymous_client.get(f"/nowhere-{number}/at/all")
        anonymous_client.get(f"/v1/reviews/{number}/status")
        anonymous_client.get(f"/v1/reviews/{number}/verb-{number}")
    text = anonymous_client.get("/metrics").text
    assert "nowhere" not in text
    assert len(read_metrics(anonymous_client)) <= before + 40


# When the store cannot work

LOCK = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def lock_database(database: Path) -> Iterator[None]:
    """Another process is writing to the database and does not come to an end."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"locked\n"
        yield
        other.stdin.close()
        other.wait(PATIENCE_S)


def test_a_locked_store_is_not_ready_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client(server.api_key) as client:
        hitl = server.open(client, **DRAFT)
        with lock_database(tmp_path / "cases.db"):
            with httpx.Client(base_url=server.url, headers=client.headers, timeout=60) as waiting:
                refused = waiting.get("/readyz")
            assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
            assert refused.headers["retry-after"] == "2"
            assert client.get("/healthz").status_code == 200
            assert client.get(hitl["poll_url"]).status_code == 200
        assert client.get("/readyz").status_code == 200


def test_on_a_full_disk_nothing_is_acknowledged_that_is_not_kept(tmp_path: Path) -> None:
    with serving(tmp_path, program=COMMAND) as server:
        server.url()
        with server.client(server.admin_key) as client:
            open_case = {**DRAFT, "context": {"text": "x" * 20_000}}
            kept = [client.post("/v1/cases", json=open_case).json()["hitl"] for _ in range(3)]
            size = max(path.stat().st_size for path in tmp_path.glob("cases.db*"))
            pid = server.process.pid
            before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 100_000, resource.RLIM_INFINITY))

            def refused() -> httpx.Response | None:
                answer = client.post("/v1/cases", json=open_case)
                if answer.status_code == 202:
                    kept.append(answer.json()["hitl"])
                return answer if answer.status_code != 202 else None

            full = eventually(refused)
            assert (full.status_code, full.json()["error"]) == (503, "unavailable")
            assert full.headers["retry-after"] == "2"
            assert client.get(kept[0]["poll_url"]).status_code == 200
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
            assert client.post("/v1/cases", json=open_case).status_code == 202
        assert server.stop() == 0
    with serving(tmp_path) as server, server.client(client.headers["Authorization"].split()[1]) as client:
        for hitl in kept:
            assert client.get(f"/v1/reviews/{hitl['case_id']}/status").status_code == 200
