"""What every page has around it: a stream of what becomes of it, a language, files that can be kept."""

import asyncio
import base64
import hashlib
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse

from placet.server.page_replies import HEADERS
from placet.server.page_style import POLICY, StylesheetInliner
from tests.server.running import RunningServer
from tests.server.sse import open_stream


def page_path(hitl: dict[str, Any]) -> str:
    return f"/review/{hitl['case_id']}"


def log_of(server: RunningServer, hitl: dict[str, Any]) -> list[str]:
    return [event.type for event in server.run(server.parts.desk.store.list_events(hitl["case_id"]))]


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client)


# The open page


def events_address(hitl: dict[str, Any]) -> str:
    return f"{page_path(hitl)}/events"


def test_an_open_page_hears_that_its_question_closed_and_nothing_of_the_answer(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, inline_actions=["confirm"])
    with server.page(hitl) as page, open_stream(page.client, events_address(hitl)) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        server.press(hitl, "confirm", data={"note": "a secret"})
        events = stream.read_rest()
    assert [(name, data) for _, name, data in events] == [("review.completed", {})]
    assert "secret" not in stream.text


def test_a_page_that_comes_back_hears_what_it_missed(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, inline_actions=["confirm"])
    with server.page(hitl) as page:
        server.press(hitl, "confirm")
        with open_stream(page.client, events_address(hitl), last_event_id="1") as stream:
            assert [name for _, name, _ in stream.read_rest()] == ["review.completed"]


def test_the_stream_of_a_page_needs_the_session_of_its_link(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    other = server.open(client)
    assert client.get(events_address(hitl)).status_code == 401  # an API key is for the other stream
    with server.page(other) as stranger:
        assert stranger.client.get(events_address(hitl)).status_code == 401
        assert stranger.client.get("/review/review_nothing/events").status_code == 404
    with server.page(hitl) as page:
        assert page.client.head(events_address(hitl)).status_code == 200
    assert log_of(server, hitl) == ["review.created"]


# Languages


def test_a_page_speaks_what_the_browser_asks_for_or_what_was_chosen(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    arabic = {"Accept-Language": "ar-EG,en;q=0.5"}
    with server.client(follow_redirects=True) as person:
        page = person.get(hitl["review_url"], headers=arabic)
        assert (page.headers["content-language"], page.headers["vary"]) == ("ar", "Accept-Language, Cookie")
        assert '<html lang="ar" dir="rtl" ' in page.text
        chosen = person.get(f"{page_path(hitl)}?lang=fr", headers=arabic)
        assert '<html lang="fr" dir="ltr" ' in chosen.text
        cookie = chosen.headers["set-cookie"]
        assert cookie.startswith("placet_lang=fr;")
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
        again = person.get(page_path(hitl), headers=arabic)
        assert again.headers["content-language"] == "fr"
        assert "set-cookie" not in again.headers
        lost = person.get("/review/review_nothing", headers=arabic)
        assert (lost.status_code, lost.headers["content-language"]) == (404, "fr")
        odd = person.get(f"{page_path(hitl)}?lang=%0d%0aSet-Cookie:x", headers=arabic)
        assert odd.headers["set-cookie"].startswith("placet_lang=en;")
    assert log_of(server, hitl) == ["review.created"]


# Weight


def test_files_are_kept_for_ever_under_the_address_of_their_version(
    server: RunningServer, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
        assert len(set(addresses)) == len(addresses)
        assert {"placet.css", "placet.js", "send.js"} <= {one.rpartition("/")[2] for one in addresses}
        for address in addresses:
            file = page.client.get(address)
            assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert (file.headers["content-encoding"], file.headers["vary"]) == ("gzip", "Accept-Encoding")
            plain = page.client.get(address, headers={"Accept-Encoding": "gzip;q=0"})
            assert "content-encoding" not in plain.headers
            assert plain.content == file.content
        old = page.client.get(re.sub("/static/[^/]+/", "/static/older/", addresses[0]))
        assert old.headers["cache-control"] == "public, max-age=300"
        total = sum(int(page.client.get(one).headers["content-length"]) for one in addresses)
    assert total + len(page.response.content) < 60_000


def test_the_first_page_carries_its_style_and_later_ones_name_it(
    server: RunningServer, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        style = re.search(r"<style>(.*?)</style>", page.text, re.DOTALL)
        assert style is not None
        digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
        assert f"style-src 'self' 'sha256-{digest}'; script-src" in page.response.headers[POLICY]
        assert "unsafe" not in page.response.headers[POLICY]
        cookie = page.response.headers["set-cookie"]
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
        later = page.client.get(page_path(hitl))
        assert "<style>" not in later.text
        assert 'placet.css">' in later.text
        assert "style-src 'self'; script-src" in later.headers[POLICY]
        name = f"placet_case.{hitl['case_id']}"
        person = {"cookie": f"{name}={page.client.cookies[name]}; placet_style=older"}
        assert "<style>" in page.client.get(page_path(hitl), headers=person).text
    assert log_of(server, hitl) == ["review.created"]


@pytest.mark.parametrize(
    "style", [b"p{background:URL(dot.png)}", b"@import 'more.css';", b"p{content:'</style>'}", b"p{}\r\n"]
)
def test_a_style_that_needs_its_own_address_stays_a_file(style: bytes) -> None:
    first = StylesheetInliner("/static/1", {"placet.css": style}, "style")
    html = '<head><link rel="stylesheet" href="/static/1/placet.css"></head>'
    response = HTMLResponse(html, headers=HEADERS)
    assert not first.put_into(response, Request({"type": "http", "headers": []}))
    assert response.body == html.encode()
    assert response.headers[POLICY] == HEADERS[POLICY]


def test_a_heavy_page_lets_others_have_their_turn(server: RunningServer) -> None:
    def pieces() -> Iterator[str]:
        for _ in range(30):
            ready = time.monotonic() + 0.002
            while time.monotonic() < ready:
                pass
            yield "x" * 1024

    async def turns_meanwhile() -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        response = await server.parts.replies.render_page(pieces())
        beside.cancel()
        assert len(response.body) == 30 * 1024
        return turns

    assert server.run(turns_meanwhile()) >= 30


def test_odd_addresses_in_the_question_itself_are_pointed_out(
    server: RunningServer, client: httpx.Client
) -> None:
    odd = "Log in at https://аррlе.com first"
    hitl = server.open(
        client, type="confirmation", prompt=odd, message="Then see https://example.com@evil.test/"
    )
    with server.page(hitl) as page:
        assert "imitates letters of another script" in page.text
        assert "no address. This one leads to" in page.text
