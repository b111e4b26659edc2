"""The grants API: what was allowed is listed, used once per call, revoked, and nobody else's business."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.cases.grant import Grant
from placet.testing.contracts.grant_store import create_case_with_grants
from placet.testing.samples import new_id, sample_grant
from tests.server.running import RunningServer

MAIL = {"to": "ada@acme.example", "copies": 1}


@pytest.fixture
def owner(server: RunningServer) -> str:
    """A principal of the test's own."""
    return new_id("owner")


@pytest.fixture
def key(server: RunningServer, owner: str) -> str:
    return server.create_key(owner)


@pytest.fixture
def client(server: RunningServer, key: str) -> Any:
    with server.client(key) as client:
        yield client


def create_grant(server: RunningServer, owner: str, **changes: Any) -> Grant:
    now = server.clock()
    grant = sample_grant(
        "", owner=owner, granted_at=now, **{"expires_at": now + timedelta(hours=1)} | changes
    )
    server.run(create_case_with_grants(server.parts.store, grant))
    return grant


def use(client: httpx.Client, number: int = 1, **changes: Any) -> httpx.Response:
    asked = {"key": f"t/1/{number}", "call_id": f"call_{number}", "tool": "send_email", "arguments": MAIL}
    return client.post("/v1/grants/use", json=asked | {"agent": "mailer", "thread_id": "t"} | changes)


def test_a_grant_shows_what_it_covers_who_gave_it_and_what_is_left(
    server: RunningServer, client: httpx.Client, owner: str
) -> None:
    grant = create_grant(server, owner)
    shown = client.get(f"/v1/grants/{grant.id}").json()
    assert shown["patterns"] == grant.patterns
    assert (shown["state"], shown["uses"], shown["uses_left"]) == ("live", 5, 5)
    assert (shown["granted_by"], shown["owner"], shown["agent"]) == ("ada@acme.example", owner, "mailer")
    assert client.get("/v1/grants").json() == {"grants": [shown], "next": None}


def test_a_use_is_counted_once_per_call(server: RunningServer, client: httpx.Client, owner: str) -> None:
    grant = create_grant(server, owner, uses=2)
    assert use(client).json()["grant"]["uses_left"] == 1
    assert use(client).json()["grant"]["uses_left"] == 1
    assert use(client, 2).json()["grant"]["id"] == grant.id
    assert use(client, 3).json() == {"grant": None}
    assert client.get(f"/v1/grants/{grant.id}").json()["state"] == "used_up"


def test_a_key_for_two_calls_is_refused(server: RunningServer, client: httpx.Client, owner: str) -> None:
    create_grant(server, owner)
    use(client)
    refused = use(client, arguments=MAIL | {"to": "eve@acme.example"})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_types_are_kept_apart_on_the_wire(server: RunningServer, client: httpx.Client, owner: str) -> None:
    create_grant(server, owner)
    for number, copies in enumerate(["1", "1.0", "true", '"1"', "[1]"]):
        body = (
            f'{{"key": "t/{number}", "call_id": "c", "tool": "send_email", "agent": "mailer",'
            f' "arguments": {{"to": "ada@acme.example", "copies": {copies}}}}}'
        )
        answer = client.post("/v1/grants/use", content=body).json()
        assert (answer["grant"] is not None) is (copies == "1"), copies


def test_two_processes_worth_of_callers_share_what_is_left(
    server: RunningServer, client: httpx.Client, owner: str
) -> None:
    create_grant(server, owner, uses=5)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: use(client, number).json(), range(64)))
    assert sum(answer["grant"] is not None for answer in answers) == 5


def test_a_revoked_grant_covers_nothing_and_revoking_again_changes_nothing(
    server: RunningServer, client: httpx.Client, owner: str
) -> None:
    grant = create_grant(server, owner)
    ended = client.post(f"/v1/grants/{grant.id}/revoke").json()
    assert (ended["state"], ended["revoked_by"]) == ("revoked", f"key:{owner}")
    server.advance(minutes=1)
    assert client.post(f"/v1/grants/{grant.id}/revoke").json() == ended
    assert use(client).json() == {"grant": None}
    assert client.get("/v1/grants").json()["grants"] == [ended]


def test_an_expired_grant_remains_listed(server: RunningServer, client: httpx.Client, owner: str) -> None:
    create_grant(server, owner)
    server.advance(hours=1)
    assert use(client).json() == {"grant": None}
    assert [one["state"] for one in client.get("/v1/grants").json()["grants"]] == ["expired"]


def test_pages_follow_one_another(server: RunningServer, client: httpx.Client, owner: str) -> None:
    grants = [create_grant(server, owner) for _ in range(3)]
    first = client.get("/v1/grants", params={"limit": 2}).json()
    second = client.get("/v1/grants", params={"limit": 2, "before": first["next"]}).json()
    assert [one["id"] for one in [*first["grants"], *second["grants"]]] == [
        one.id for one in reversed(grants)
    ]
    assert second["next"] is None


def test_nobody_elses_grant_exists(server: RunningServer, owner: str) -> None:
    grant = create_grant(server, owner)
    with server.client(server.create_key(new_id("stranger"))) as stranger:
        assert stranger.get("/v1/grants").json()["grants"] == []
        assert stranger.get(f"/v1/grants/{grant.id}").status_code == 404
        assert stranger.post(f"/v1/grants/{grant.id}/revoke").status_code == 404
        assert use(stranger).json() == {"grant": None}
    with server.client() as nobody:
        for answer in (
            nobody.get("/v1/grants"),
            nobody.get(f"/v1/grants/{grant.id}"),
            nobody.post(f"/v1/grants/{grant.id}/revoke"),
            use(nobody),
        ):
            assert answer.status_code == 401


def test_a_key_that_only_reads_neither_uses_nor_revokes(server: RunningServer, owner: str) -> None:
    grant = create_grant(server, owner)
    with server.client(server.create_key(owner, "cases:read")) as reader:
        assert reader.get(f"/v1/grants/{grant.id}").status_code == 200
        assert reader.post(f"/v1/grants/{grant.id}/revoke").status_code == 403
        assert use(reader).status_code == 403


def test_an_administrator_lists_and_revokes_everyones_and_uses_none(
    server: RunningServer, owner: str
) -> None:
    grant = create_grant(server, owner)
    with server.client(server.create_key("boss", "admin")) as boss:
        assert grant.id in {one["id"] for one in boss.get("/v1/grants").json()["grants"]}
        assert use(boss).json() == {"grant": None}
        assert boss.post(f"/v1/grants/{grant.id}/revoke").json()["revoked_by"] == "key:boss"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"key":"","call_id":"c","tool":"t","arguments":{}}',
        b'{"key":"k","call_id":"c","tool":"t","arguments":[]}',
        b'{"key":"k","call_id":"c","tool":"t","arguments":{},"high_risk":true}',
        b'{"key":"k","call_id":"c","tool":"t","arguments":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    ],
    ids=lambda body: body[:60].decode(),
)
def test_an_odd_body_is_refused(client: httpx.Client, body: bytes) -> None:
    assert client.post("/v1/grants/use", content=body).status_code == 400
