"""The page at the server's root URL."""

import httpx
import pytest

from tests.server.running import RunningServer

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_a_browser_is_told_what_runs_here_and_where_to_go(server: RunningServer) -> None:
    with httpx.Client(base_url=server.url, headers=BROWSER) as browser:
        page = browser.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "Accept," in page.headers["vary"]
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "open the link that you were sent" in page.text
        for address in ("/inbox", "/docs"):
            assert f'href="{address}"' in page.text
            assert browser.get(address).status_code == 200
        german = browser.get("/", headers={"Accept-Language": "de"})
        assert "Den Eingang öffnen" in german.text
        assert browser.head("/").status_code == 200


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_a_program_finds_nothing_there(server: RunningServer, accept: str) -> None:
    answer = httpx.get(server.url, headers={"Accept": accept})
    assert answer.status_code == 404
    assert answer.json() == {"error": "not_found", "message": "There is nothing at this address."}
