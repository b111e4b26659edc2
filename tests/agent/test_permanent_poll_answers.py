"""Poll URLs whose answer will not change: the wait ends at once, and says why."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import httpx
import pytest

from placet.agent import Agent, AsyncAgent, Decided, Notice, PendingCases
from placet.agent.flow import MAX_UNREADABLE_ANSWERS, SleepUntil
from placet.errors import UnreadableAnswer
from tests.agent.test_affirmative_actions import SERVICE, open_body
from tests.agent.test_flow import NOW, make_flow, poll_body
from tests.cli.strange_service import Reply, StrangeService, strange_service

LOGIN = "https://login.example/sign-in"


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308, 399])
def test_redirected_poll_ends_at_once_with_its_target(status: int) -> None:
    with pytest.raises(UnreadableAnswer) as raised:
        make_flow().report_response(status, {"location": f"{LOGIN}?next=secret#part"}, b"", NOW)
    assert raised.value.message == (
        "The service does not report the status of this case: its poll URL answered "
        f"HTTP {status}, a redirect to {LOGIN}. Redirects are not followed."
    )


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (None, "HTTP 302. Redirects"),
        ("", "HTTP 302. Redirects"),
        ("http://[::1", "HTTP 302. Redirects"),
        ("/login?token=secret", "to https://ci.example/login. "),
        ("//other.example/a", "to https://other.example/a. "),
        ("https://user:secret@other.example/a", "to https://other.example/a. "),
        ("?token=secret", "to https://ci.example/poll/1. "),
        ("https://other.example/\x1b[31m\u202e", "⟦U+202E⟧"),
        (f"https://other.example/{'a' * 100_000}", "…. Redirects"),
    ],
)
def test_target_of_a_redirect_is_shown_safely(location: str | None, shown: str) -> None:
    headers = {} if location is None else {"location": location}
    with pytest.raises(UnreadableAnswer) as raised:
        make_flow().report_response(302, headers, b"", NOW)
    assert shown in raised.value.message
    assert "secret" not in raised.value.message
    assert "\x1b" not in raised.value.message
    assert len(raised.value.message) < 400


@pytest.mark.parametrize("status", [400, 402, 405, 406, 409, 411, 418, 422, 451, 499, 501, 505, 600, 999])
def test_permanent_refusal_ends_at_once(status: int) -> None:
    with pytest.raises(UnreadableAnswer, match=rf"HTTP {status}\.$"):
        make_flow().report_response(status, {"retry-after": "1"}, poll_body("pending"), NOW)


@pytest.mark.parametrize("status", [408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 599])
def test_temporary_failure_is_retried(status: int) -> None:
    following = make_flow()
    for _ in range(10):
        following.report_response(status, {"retry-after": "1"}, b"", NOW)
    assert isinstance(following.step(NOW), SleepUntil)


@pytest.mark.parametrize("status", [201, 202, 203, 204, 206, 226])
def test_other_success_is_never_a_decision(status: int) -> None:
    following = make_flow()
    body = poll_body("completed", result={"action": "approve", "data": {}})
    for _ in range(MAX_UNREADABLE_ANSWERS - 1):
        following.report_response(status, {}, body, NOW)
        assert isinstance(following.step(NOW), SleepUntil)
    with pytest.raises(UnreadableAnswer, match=f"HTTP {status}"):
        following.report_response(status, {}, body, NOW)


def test_case_whose_poll_redirects_can_be_resumed_after_the_repair(
    service: StrangeService, tmp_path: Path
) -> None:
    service.asks()
    service.replies["/poll"] = Reply(status=302, headers={"Location": "http://169.254.169.254/"})
    heard: list[Notice] = []
    with Agent(
        tell=heard.append, pending=PendingCases(tmp_path / "agent.db"), max_wait=timedelta(seconds=60)
    ) as agent:
        with pytest.raises(UnreadableAnswer, match=r"a redirect to http://169\.254\.169\.254/\."):
            agent.request("POST", f"{service.url}/act")
        assert [notice.name for notice in heard] == ["requested"]
        assert {call.path for call in service.calls} == {"/act", "/poll"}
        service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
        ((_, outcome),) = agent.resume_all()
    assert isinstance(outcome, Decided)


def follow(handle: Callable[[httpx.Request], httpx.Response], *, is_async: bool) -> object:
    """Follow the case that the service opens, with one of the two agents."""
    transport = httpx.MockTransport(handle)
    if not is_async:
        with Agent(tell=lambda notice: None, http=httpx.Client(transport=transport)) as agent:
            return agent.request("POST", f"{SERVICE}/deploy")

    async def run() -> object:
        http = httpx.AsyncClient(transport=transport)
        async with AsyncAgent(tell=lambda notice: None, http=http) as agent:
            return await agent.request("POST", f"{SERVICE}/deploy")

    return anyio.run(run)


@pytest.mark.parametrize(
    "location",
    ["javascript:alert(1)", "/a\x01b", "http://[::1", "mailto:a@b.example", "https://a.example:x/", "x:"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_redirect_to_what_is_no_url_ends_at_once(location: str, is_async: bool) -> None:
    polls = 0

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal polls
        if request.url.path == "/poll/1":
            polls += 1
            return httpx.Response(302, headers=[(b"Location", location.encode())])
        return httpx.Response(202, json=open_body())

    with pytest.raises(UnreadableAnswer):
        follow(handle, is_async=is_async)
    assert polls == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_keys_behind_an_invalid_redirect_lose_no_decision(is_async: bool) -> None:
    signature = {"algorithm": "ES256", "value": "e30..AAAA", "signed_at": "x", "signer": f"{SERVICE}/keys"}

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/keys":
            return httpx.Response(302, headers={"Location": "javascript:alert(1)"})
        if request.url.path == "/poll/1":
            result = {"action": "approve", "data": {}, "signature": signature}
            return httpx.Response(200, json={"status": "completed", "case_id": "review_1", "result": result})
        return httpx.Response(202, json=open_body())

    outcome = follow(handle, is_async=is_async)
    assert isinstance(outcome, Decided)
    assert outcome.verified is None


@pytest.mark.parametrize("case_id", [5, ["review_1"], {"review_1": 1}, True, "review_2", ""])
def test_poll_response_that_names_another_case_in_any_way_is_no_answer(case_id: object) -> None:
    following = make_flow()
    body = json.dumps({"status": "completed", "case_id": case_id, "result": {"action": "approve"}}).encode()
    following.report_response(200, {}, body, NOW)
    assert isinstance(following.step(NOW), SleepUntil)
