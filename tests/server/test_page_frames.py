"""Review pages in a frame of another site: who may show them, and what is decided outside of the frame."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.errors import SettingsError
from placet.settings import build_settings
from tests.server.running import ReviewPage, RunningServer, running

CHAT = "https://chat.example"
FRAMED = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
FROM_FRAME = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-origin"}
APPROVAL = {"type": "approval", "prompt": "Print it?", "context": {"artifact": "A poem"}}
RISKY: list[dict[str, Any]] = [
    {"type": "confirmation", "prompt": "Send?", "context": {}},
    {**APPROVAL, "context": {"artifact": "A poem", "reversible": False}},
    {
        **APPROVAL,
        "context": {"tool_calls": [{"id": "a", "name": "pay", "arguments": {}, "high_risk": True}]},
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("frames"), frame_ancestors=(CHAT, "http://localhost:3000")) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as found:
        yield found


@pytest.fixture
def browser(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(follow_redirects=False) as found:
        yield found


def enter(browser: httpx.Client, hitl: dict[str, Any], headers: dict[str, str]) -> tuple[str, ReviewPage]:
    """Open a link as a browser with these headers does; return the cookie and the page."""
    reply = browser.get(hitl["review_url"], headers=headers)
    cookie = reply.headers["set-cookie"]
    sent = {**headers, "Cookie": cookie.partition(";")[0]}
    browser.cookies.clear()
    return cookie, ReviewPage(browser, browser.get(reply.headers["location"], headers=sent))


def answer(page: ReviewPage, cookie: str, action: str, headers: dict[str, str]) -> httpx.Response:
    fields = {**page.hidden_fields(), "action": action}
    sent = {**headers, "Cookie": cookie.partition(";")[0]}
    return page.client.post(f"{page.response.url.path}/respond", data=fields, headers=sent)


def test_by_default_nobody_may_show_a_page_in_a_frame(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("closed")) as server, server.client(server.api_key) as client:
        hitl = server.open(client, **APPROVAL)
        with server.page(hitl) as page:
            assert "frame-ancestors 'none'" in page.response.headers["content-security-policy"]
            assert page.response.headers["x-frame-options"] == "DENY"
        assert "set-cookie" not in client.get(hitl["review_url"], headers=FRAMED).headers


def test_the_listed_sites_may_and_their_frame_has_a_session_of_its_own(
    server: RunningServer, client: httpx.Client, browser: httpx.Client
) -> None:
    hitl = server.open(client, **APPROVAL)
    cookie, page = enter(browser, hitl, FRAMED)
    assert {"SameSite=None", "Secure", "HttpOnly", "Partitioned"} <= set(cookie.split("; "))
    policy = page.response.headers["content-security-policy"]
    assert f"frame-ancestors {CHAT} http://localhost:3000" in policy
    assert "x-frame-options" not in page.response.headers
    outside = browser.get(page.response.url, headers={"Cookie": cookie.partition(";")[0]})
    assert outside.status_code == 401
    assert answer(page, cookie, "approve", FROM_FRAME).status_code == 303
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == "approve"


def test_the_inbox_and_the_home_page_are_never_in_a_frame(server: RunningServer) -> None:
    with server.client() as client:
        for path in ("/", "/inbox/sign-in", "/nowhere"):
            headers = client.get(path, headers={"Accept": "text/html", **FRAMED}).headers
            assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("draft", RISKY, ids=["confirmation", "irreversible", "high-risk call"])
def test_what_is_of_high_risk_is_decided_outside_of_the_frame(
    server: RunningServer, client: httpx.Client, browser: httpx.Client, draft: dict[str, Any]
) -> None:
    hitl = server.open(client, **draft)
    action = "confirm" if draft["type"] == "confirmation" else "approve"
    cookie, page = enter(browser, hitl, FRAMED)
    assert f'name="action" value="{action}"' not in page.text
    for headers in (FROM_FRAME, {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}):
        refused = answer(page, cookie, action, headers)
        assert refused.status_code == 403
        assert "decided on a page of its own" in refused.text
    way = re.search(r'href="([^"]*\?ticket=[^"]*)" target="_blank"', page.text)
    assert way is not None
    top = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin"}
    session, decision = enter(browser, {"review_url": way[1]}, top)
    assert "SameSite=lax" in session
    assert answer(decision, session, action, top).status_code == 303
    assert client.get(hitl["poll_url"]).json()["result"]["action"] == action


def test_a_ticket_is_short_lived_and_for_one_case(
    server: RunningServer, client: httpx.Client, browser: httpx.Client
) -> None:
    hitl, other = server.open(client, **RISKY[0]), server.open(client, **RISKY[0])
    cookie, page = enter(browser, hitl, FRAMED)
    ticket = page.text.partition("?ticket=")[2].partition('"')[0]
    path = f"/review/{hitl['case_id']}"
    assert browser.get(f"/review/{other['case_id']}", params={"ticket": ticket}).status_code == 401
    session = cookie.partition(";")[0].partition("=")[2]
    assert browser.get(path, params={"ticket": session}).status_code == 401
    server.advance(minutes=11)
    assert browser.get(path, params={"ticket": ticket}).status_code == 401


@pytest.mark.parametrize("origin", ["*", f"{CHAT}/", "chat.example", f"{CHAT}; script-src *"])
def test_only_web_origins_may_be_listed(origin: str) -> None:
    with pytest.raises(SettingsError, match="frame_ancestors"):
        build_settings({"frame_ancestors": [origin]})
