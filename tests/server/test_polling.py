"""Polling: cheap to ask again, paced by the state, and only for the owner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S

INLINE = {"inline_actions": ["confirm", "cancel"]}


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client, **INLINE)


def get_poll_status(client: httpx.Client, hitl: dict[str, Any], if_none_match: str) -> int:
    return client.get(hitl["poll_url"], headers={"If-None-Match": if_none_match}).status_code


def test_a_poll_has_a_strong_etag_that_changes_with_the_case(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    first = client.get(hitl["poll_url"])
    assert first.headers["etag"] == '"1"'
    again = client.get(hitl["poll_url"], headers={"If-None-Match": '"1"'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == '"1"'
    assert again.headers["cache-control"] == "no-store"
    assert "content-length" not in again.headers
    server.press(hitl, "confirm")
    changed = client.get(hitl["poll_url"], headers={"If-None-Match": '"1"'})
    assert changed.status_code == 200
    assert changed.headers["etag"] == '"2"'
    assert changed.json()["status"] == "completed"


@pytest.mark.parametrize(
    "tag",
    ['"1"', 'W/"1"', "*", '"7", "1"', 'W/"7",W/"1"', '"7","8" , "1"', '"a,b", "1"'],
)
def test_a_tag_that_names_the_version_is_answered_304(
    client: httpx.Client, hitl: dict[str, Any], tag: str
) -> None:
    assert get_poll_status(client, hitl, tag) == 304


@pytest.mark.parametrize(
    "tag", ['"2"', "1", '"11"', 'w/"1"', "", ",", '"', "W/*", '"1', "*, *", "\xe9" * 500]
)
def test_other_tags_get_the_full_response(client: httpx.Client, hitl: dict[str, Any], tag: str) -> None:
    response = client.get(hitl["poll_url"], headers=[(b"If-None-Match", tag.encode("latin-1"))])
    assert response.status_code == 200


def test_retry_after_depends_on_the_state(server: RunningServer, client: httpx.Client) -> None:
    form = {"fields": [{"key": "name", "label": "Name", "type": "text", "required": True}]}
    hitl = server.open(client, type="input", context={"form": {"steps": [{"title": "One", **form}] * 1}})
    fresh = client.get(hitl["poll_url"])
    assert fresh.headers["retry-after"] == "2"  # a new question is often answered at once
    server.advance(minutes=5)
    paces = {}

    def look() -> str:
        response = client.get(hitl["poll_url"])
        paces[response.json()["status"]] = response.headers.get("retry-after")
        return str(response.json()["status"])

    assert look() == "pending"
    with server.page(hitl) as page:
        page.client.post(f"/review/{hitl['case_id']}/opened", data={"csrf": page.hidden_fields()["csrf"]})
        assert look() == "opened"
        page.post("respond", {"action": "submit", "field.name": ""})
        assert look() == "in_progress"
        page.post("respond", {"action": "submit", "field.name": "Ada"})
        assert look() == "completed"
    assert paces == {"pending": "30", "opened": "10", "in_progress": "5", "completed": None}


def test_retry_after_never_exceeds_the_deadline(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, timeout="20s")
    assert int(client.get(hitl["poll_url"]).headers["retry-after"]) <= 21
    server.advance(seconds=18)
    assert int(client.get(hitl["poll_url"]).headers["retry-after"]) <= 3
    server.advance(seconds=2)
    late = client.get(hitl["poll_url"])
    assert late.json()["status"] == "expired"
    assert "retry-after" not in late.headers


def test_the_first_read_after_the_deadline_expires_the_case(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, timeout="1m", default_action="abort")
    server.advance(minutes=1)
    poll = client.get(hitl["poll_url"]).json()
    assert poll["status"] == "expired"
    assert poll["default_action"] == "abort"
    assert poll["expired_at"] == hitl["expires_at"]
    assert "result" not in poll


def test_head_tells_the_same_without_the_body(client: httpx.Client, hitl: dict[str, Any]) -> None:
    full, head = client.get(hitl["poll_url"]), client.head(hitl["poll_url"])
    assert head.status_code == 200
    assert head.content == b""
    ignored = ("date", "x-ratelimit-remaining")
    assert {name: value for name, value in head.headers.items() if name not in ignored} == {
        name: value for name, value in full.headers.items() if name not in ignored
    }


def test_polls_are_never_stored(client: httpx.Client, hitl: dict[str, Any]) -> None:
    headers = client.get(hitl["poll_url"]).headers
    assert headers["cache-control"] == "no-store"
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("verb", ["status", "events"])
def test_only_the_owner_sees_a_case(server: RunningServer, hitl: dict[str, Any], verb: str) -> None:
    address = f"/v1/reviews/{hitl['case_id']}/{verb}"
    with server.client() as nobody, server.client(server.create_key("stranger")) as stranger:
        unknown = nobody.get(address)
        assert (unknown.status_code, unknown.json()["error"]) == (401, "invalid_token")
        assert unknown.headers["www-authenticate"] == "Bearer"
        refused = stranger.get(address)
        missing = stranger.get(f"/v1/reviews/review_nothing/{verb}")
    assert refused.status_code == missing.status_code == 404
    assert refused.json() == missing.json()


@pytest.mark.parametrize(
    "credential",
    [
        "Bearer",
        "Basic YTpi",
        "Bearer wrong",
        "Bearer a b",
        "bearer\tx",
        "\xff\xfe",
        "Bearer " + "x" * 9000,
    ],
)
def test_invalid_credential_is_refused(server: RunningServer, hitl: dict[str, Any], credential: str) -> None:
    headers = [(b"Authorization", credential.encode("latin-1"))]
    answer = httpx.get(hitl["poll_url"], headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid_token"


def test_the_tokens_of_a_case_open_no_poll(server: RunningServer, hitl: dict[str, Any]) -> None:
    review_token = hitl["review_url"].partition("token=")[2]
    for token in (review_token, hitl["submit_token"]):
        with server.client(token) as crossing:
            assert crossing.get(hitl["poll_url"]).status_code == 401
            assert crossing.get(f"{hitl['poll_url']}?token={token}").status_code == 401


def test_anonymous_case_may_be_polled_by_anybody(server: RunningServer) -> None:
    server.parts.add_demo()
    with server.client() as nobody:
        hitl = nobody.post("/api/demo?type=confirmation").json()["hitl"]
        assert nobody.get(hitl["poll_url"]).json()["status"] == "pending"
    with server.client(server.api_key) as someone:
        assert someone.get(hitl["poll_url"]).status_code == 200


# The budget


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("counting")) as server:
        yield server


def poll_until_refused(
    client: httpx.Client, hitl: dict[str, Any], at_most: int = 90
) -> tuple[int, httpx.Response]:
    """Poll until refused; returns how many polls were answered, and the refusal."""
    for answered in range(at_most):
        response = client.get(hitl["poll_url"])
        if response.status_code != 200:
            return answered, response
    raise AssertionError("nobody was refused")


def test_the_61st_poll_in_a_minute_is_refused_with_when_to_come_back(counting: RunningServer) -> None:
    with counting.client(counting.api_key) as client:
        hitl = counting.open(client, **INLINE)
        first = client.get(hitl["poll_url"])
        assert first.headers["x-ratelimit-limit"] == "60"
        assert first.headers["x-ratelimit-remaining"] == "59"
        answered, refusal = poll_until_refused(client, hitl)
        assert 59 <= answered <= 65  # the bucket refills while the test spends
        assert refusal.status_code == 429
        assert refusal.json()["error"] == "rate_limited"
        assert 1 <= int(refusal.headers["retry-after"]) <= 2
        assert refusal.headers["x-ratelimit-limit"] == "60"
        assert refusal.headers["x-ratelimit-remaining"] == "0"
        # Not the case's budget but its owner's: another case, and the closed one, are still there.
        assert client.get(counting.open(client)["poll_url"]).status_code == 200
        assert counting.press(hitl, "confirm").status_code == 200
        assert {client.get(hitl["poll_url"]).status_code for _ in range(70)} == {200}
        assert client.get(hitl["poll_url"]).headers["x-ratelimit-limit"] == "60"


def test_an_unchanged_case_costs_no_budget(counting: RunningServer) -> None:
    with counting.client(counting.api_key) as client:
        hitl = counting.open(client)
        unchanged = {"If-None-Match": '"1"'}
        seen = {client.get(hitl["poll_url"], headers=unchanged).status_code for _ in range(100)}
        assert seen == {304}
        assert client.get(hitl["poll_url"]).headers["x-ratelimit-remaining"] == "59"


def test_polls_by_strangers_do_not_use_the_owners_budget(counting: RunningServer) -> None:
    with counting.client(counting.api_key) as client, counting.client() as nobody:
        hitl = counting.open(client)
        assert {nobody.get(hitl["poll_url"]).status_code for _ in range(70)} == {401}
        assert client.get(hitl["poll_url"]).headers["x-ratelimit-remaining"] == "59"


def test_the_limit_is_a_setting_and_can_be_none(tmp_path: Path) -> None:
    with running(tmp_path, polls_per_minute=0) as free, free.client(free.api_key) as client:
        hitl = free.open(client)
        answers = [client.get(hitl["poll_url"]) for _ in range(100)]
    assert {answer.status_code for answer in answers} == {200}
    assert "x-ratelimit-limit" not in answers[0].headers
