"""Errors outside of the review pages: a page for a browser, JSON for a program."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server.running import RunningServer, running

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Language": "de"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("error-pages")) as found:
        yield found


@pytest.mark.parametrize("path", ["/nowhere", "/docs/nowhere", "/static/nowhere.js"])
def test_a_browser_gets_a_page_for_an_unknown_address_and_a_program_json(
    server: RunningServer, path: str
) -> None:
    with server.client(None) as client:
        page, reply = client.get(path, headers=BROWSER), client.get(path)
    assert (page.status_code, reply.status_code) == (404, 404)
    assert "<h1>Unter dieser Adresse gibt es keine Seite</h1>" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "Accept" in page.headers["vary"]
    assert reply.json()["error"] == "not_found"


def test_a_post_and_the_api_answer_json_to_everyone(server: RunningServer) -> None:
    with server.client(None) as client:
        posted: httpx.Response = client.post("/nowhere", headers=BROWSER)
        asked = client.get("/v1/reviews/review_0/status", headers=BROWSER)
    assert posted.json()["error"] == "not_found"
    assert asked.json()["error"] in ("not_found", "invalid_token")


def test_every_page_names_its_favicon(server: RunningServer) -> None:
    with server.client(None) as client:
        page = client.get("/nowhere", headers=BROWSER)
        address = page.text.partition('<link rel="icon" href="')[2].partition('"')[0]
        icon = client.get(address)
    assert icon.headers["content-type"] == "image/svg+xml"
    assert icon.text.startswith("<svg")
