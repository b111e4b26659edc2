"""Inline submit: its own token, the actions that were offered, one winner, every answer by its code."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest

from placet.protocol.inline_submit import VIA_OF_PLATFORM
from tests.server.running import PRESSED, RunningServer

BOTH = {"inline_actions": ["confirm", "cancel"]}
POLICY = {
    "mode": "required",
    "required_for": ["inline_submit"],
    "requirements": {"any_of": [{"all_of": [{"proof_type": "proof_of_human"}]}]},
    "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
    "fallback": {"on_missing": "browser_review", "on_invalid": "browser_review"},
}


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client, **BOTH)


def send(
    hitl: dict[str, Any], body: bytes | dict[str, Any], token: str | None = "", **headers: str
) -> httpx.Response:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    credential = hitl["submit_token"] if token == "" else token
    bearer = {"Authorization": f"Bearer {credential}"} if credential else {}
    return httpx.post(hitl["submit_url"], content=content, headers={**bearer, **headers}, timeout=60)


def status_of(client: httpx.Client, hitl: dict[str, Any]) -> str:
    return str(client.get(hitl["poll_url"]).json()["status"])


def assert_refused(response: httpx.Response, status: int, error: str) -> dict[str, Any]:
    assert (response.status_code, response.json()["error"]) == (status, error), response.text
    assert response.headers["cache-control"] == "no-store"
    body: dict[str, Any] = response.json()
    return body


def test_a_press_completes_the_case_and_says_who_pressed_without_believing_it(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    receipt = server.press(hitl, "confirm")
    assert receipt.status_code == 200
    assert receipt.json() == {
        "status": "completed",
        "case_id": hitl["case_id"],
        "completed_at": client.get(hitl["poll_url"]).json()["completed_at"],
    }
    poll = client.get(hitl["poll_url"]).json()
    assert poll["result"]["action"] == "confirm"
    assert poll["submission_context"]["mode"] == "inline_submit"
    assert poll["submission_context"]["submitted_by"] == PRESSED["submitted_by"]
    assert "responded_by" not in poll


def test_both_paths_take_the_answer(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    assert hitl["submit_url"].endswith("/respond")
    other = {**hitl, "submit_url": hitl["submit_url"].replace("/respond", "/submit")}
    assert server.press(other, "cancel").status_code == 200
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "cancel"


def test_case_without_inline_actions_refuses_inline_answers(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client)
    assert "submit_url" not in hitl
    assert "submit_token" not in hitl
    address = {"submit_url": hitl["poll_url"].replace("status", "respond"), "submit_token": "x" * 43}
    assert_refused(server.press(address, "confirm"), 401, "invalid_token")


def test_every_other_token_is_refused(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    other = server.open(client, **BOTH)
    review_token = hitl["review_url"].partition("token=")[2]
    body = {"action": "confirm", **PRESSED}
    for token in (
        None,
        "wrong",
        review_token,
        other["submit_token"],
        server.api_key,
        hitl["submit_token"][:-1],
    ):
        assert_refused(send(hitl, body, token), 401, "invalid_token")
    by_query = {**hitl, "submit_url": f"{hitl['submit_url']}?token={hitl['submit_token']}"}
    assert_refused(send(by_query, body, None), 401, "invalid_token")
    by_review = {**hitl, "submit_url": f"{hitl['submit_url']}?token={review_token}"}
    assert_refused(send(by_review, body, None), 401, "invalid_token")
    assert status_of(client, hitl) == "pending"


def test_a_case_that_is_not_there_is_not_found(server: RunningServer, hitl: dict[str, Any]) -> None:
    nowhere = {**hitl, "submit_url": f"{server.url}/v1/reviews/review_nothing/respond"}
    assert_refused(send(nowhere, {"action": "confirm", **PRESSED}), 404, "not_found")


def test_an_action_that_is_not_inline_leads_to_the_page(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, inline_actions=["cancel"])
    body = assert_refused(server.press(hitl, "confirm"), 403, "action_not_inline")
    assert body["case_id"] == hitl["case_id"]
    assert body["review_url"] == hitl["review_url"].partition("?")[0]  # the token stays where it was
    assert status_of(client, hitl) == "pending"


def test_a_case_without_inline_actions_takes_no_token_of_another(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, inline_actions=["cancel"])
    nothing = server.open(client, inline_actions=[])
    assert {"submit_url", "submit_token", "inline_actions"}.isdisjoint(nothing)
    url = hitl["submit_url"].replace(hitl["case_id"], nothing["case_id"])
    for token in (hitl["submit_token"], server.api_key, "None", "x" * 43):
        pressed = server.press({**nothing, "submit_url": url, "submit_token": token}, "cancel")
        assert_refused(pressed, 401, "invalid_token")
    assert status_of(client, hitl) == status_of(client, nothing) == "pending"


def test_an_action_of_another_type_is_no_action(server: RunningServer, hitl: dict[str, Any]) -> None:
    body = assert_refused(server.press(hitl, "approve"), 400, "invalid_action")
    assert "confirm, cancel" in body["message"]
    assert body["case_id"] == hitl["case_id"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"action": ""}, "invalid_submission"),
        ({"action": None}, "invalid_submission"),
        ({"action": "x" * 101}, "invalid_submission"),
        ({"action": "CONFIRM"}, "invalid_action"),
        ({"data": "text"}, "invalid_submission"),
        ({"data": [1]}, "invalid_submission"),
        ({"data": {"surprise": 1}}, "invalid_submission"),
        ({"data": {"confirmed_items": ["x"]}}, "invalid_submission"),
        ({"data": {"note": "x" * 10_001}}, "invalid_submission"),
        ({"data": {"note": "a\x00b"}}, "invalid_submission"),
        ({"submitted_via": "carrier_pigeon"}, "invalid_submission"),
        ({"submitted_via": None}, "invalid_submission"),
        ({"submitted_by": {}}, "invalid_submission"),
        ({"submitted_by": {"platform": "telegram"}}, "invalid_submission"),
        ({"submitted_by": {"platform": "telegram", "platform_user_id": 7}}, "invalid_submission"),
        ({"submitted_by": {"platform": "telegram", "platform_user_id": ""}}, "invalid_submission"),
        ({"submitted_by": {"platform": "x-a", "platform_user_id": "a\nb"}}, "invalid_submission"),
        ({"verification_evidence": "yes"}, "invalid_submission"),
        ({"verification_evidence": [{}]}, "invalid_submission"),
        ({"responded_by": {"name": "Ada"}}, "invalid_submission"),
        ({"status": "completed"}, "invalid_submission"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_an_answer_that_does_not_fit_is_refused_and_changes_nothing(
    client: httpx.Client, hitl: dict[str, Any], change: dict[str, Any], error: str
) -> None:
    assert_refused(send(hitl, {"action": "confirm", **PRESSED, **change}), 400, error)
    assert status_of(client, hitl) == "pending"


@pytest.mark.parametrize("missing", ["action", "submitted_via", "submitted_by"])
def test_every_press_says_who_and_through_what(
    client: httpx.Client, hitl: dict[str, Any], missing: str
) -> None:
    body = {name: value for name, value in {"action": "confirm", **PRESSED}.items() if name != missing}
    assert missing in assert_refused(send(hitl, body), 400, "invalid_submission")["message"]
    assert status_of(client, hitl) == "pending"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 9000 + b"]" * 9000], ids=lambda body: repr(body[:9])
)
def test_body_that_is_not_json_is_refused(client: httpx.Client, hitl: dict[str, Any], body: bytes) -> None:
    response = send(hitl, body)
    assert response.status_code == 400
    assert response.json()["error"] in ("invalid_json", "invalid_submission")
    assert status_of(client, hitl) == "pending"


def test_a_body_that_is_too_large_is_refused(client: httpx.Client, hitl: dict[str, Any]) -> None:
    assert_refused(send(hitl, b"x" * (1024 * 1024 + 1)), 413, "invalid_request")
    assert status_of(client, hitl) == "pending"


def test_second_answer_is_refused(server: RunningServer, client: httpx.Client, hitl: dict[str, Any]) -> None:
    assert server.press(hitl, "confirm").status_code == 200
    body = assert_refused(server.press(hitl, "cancel"), 409, "duplicate_submission")
    assert body["case_id"] == hitl["case_id"]
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "confirm"


def test_the_same_press_again_gets_the_first_receipt(client: httpx.Client, hitl: dict[str, Any]) -> None:
    body = {"action": "confirm", **PRESSED}
    first = send(hitl, body, **{"Idempotency-Key": "press 1"})
    again = send(hitl, body, **{"Idempotency-Key": "press 1"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert_refused(
        send(hitl, {**body, "action": "cancel"}, **{"Idempotency-Key": "press 1"}),
        409,
        "duplicate_submission",
    )
    assert_refused(send(hitl, body, **{"Idempotency-Key": "press 2"}), 409, "duplicate_submission")
    assert_refused(send(hitl, body, **{"Idempotency-Key": ""}), 400, "invalid_request")


def test_of_many_answers_at_once_one_wins(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    together = threading.Barrier(16)

    def press(number: int) -> tuple[int, str]:
        action = "confirm" if number % 2 else "cancel"
        together.wait(60)
        return server.press(hitl, action).status_code, action

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(press, range(16)))
    won = [action for status, action in answers if status == 200]
    assert sorted(status for status, _ in answers) == [200] + [409] * 15
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == won[0]


def test_a_late_answer_is_gone(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, timeout="1m", **BOTH)
    server.advance(minutes=1)  # nobody has swept or looked: the answer itself finds the deadline passed
    body = assert_refused(server.press(hitl, "confirm"), 410, "case_expired")
    assert body["case_id"] == hitl["case_id"]
    assert status_of(client, hitl) == "expired"
    assert_refused(server.press(hitl, "confirm"), 410, "case_expired")


def test_a_withdrawn_case_takes_no_answer(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    client.post(f"/v1/reviews/{hitl['case_id']}/cancel")
    assert_refused(server.press(hitl, "confirm"), 409, "duplicate_submission")


def test_a_press_without_the_evidence_that_is_asked_for_leads_to_the_page(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, verification_policy=POLICY, **BOTH)
    body = assert_refused(server.press(hitl, "confirm"), 403, "verification_required")
    assert body["review_url"] == hitl["review_url"].partition("?")[0]
    evidence = {
        "proof_type": "proof_of_human",
        "provider": "anyone",
        "format": "jwt",
        "presentation": "a.b.c",
        "binding": {"case_id": hitl["case_id"], "action": "confirm"},
    }
    failed = server.press(hitl, "confirm", verification_evidence=[evidence])
    assert_refused(failed, 403, "verification_failed")
    assert status_of(client, hitl) == "pending"


@pytest.mark.parametrize(
    ("draft", "action", "data"),
    [
        ({"type": "approval", "context": {"artifact": "A letter"}}, "approve", {}),
        ({"type": "approval", "context": {"artifact": "A letter"}}, "reject", {"feedback": "too long"}),
        ({"type": "escalation", "context": {"error": {"summary": "No answer"}}}, "retry", {}),
        ({"type": "x-compare", "actions": ["left", "right"]}, "left", {"why": "nicer"}),
    ],
)
def test_each_type_takes_its_own_actions_inline(
    server: RunningServer, client: httpx.Client, draft: dict[str, Any], action: str, data: dict[str, Any]
) -> None:
    hitl = server.open(client, **draft, inline_actions=[action])
    assert server.press(hitl, action, data=data).status_code == 200
    result = client.get(hitl["poll_url"]).json()["result"]
    assert (result["action"], result["data"]) == (action, data)


@pytest.mark.parametrize(("platform", "via"), VIA_OF_PLATFORM.items())
def test_the_platform_alone_is_read_as_the_protocols_skill_writes_it(
    server: RunningServer, client: httpx.Client, platform: str, via: str
) -> None:
    hitl = server.open(client, inline_actions=["confirm", "cancel"])
    by = {"platform": platform, "platform_user_id": "7"}
    assert server.press(hitl, "confirm", submitted_via=platform, submitted_by=by).status_code == 200
    context = client.get(hitl["poll_url"]).json()["submission_context"]
    assert context == {"mode": "inline_submit", "submitted_via": via, "submitted_by": by}
