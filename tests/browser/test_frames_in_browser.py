"""A review page in a frame of another site, in a real browser."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visiting import visiting
from tests.server.running import running


class Chat(BaseHTTPRequestHandler):
    """A chat client on another site: its page shows the address after `?` in a frame."""

    def do_GET(self) -> None:
        body = f'<!doctype html><iframe width=380 height=800 src="{self.path.partition("?")[2]}"></iframe>'
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def chat() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join(60)


def test_a_person_decides_in_a_frame_and_what_is_of_high_risk_outside_of_it(
    browser: Browser, tmp_path: Path, chat: str
) -> None:
    with running(tmp_path, frame_ancestors=(chat,)) as server, server.client(server.api_key) as agent:
        approval = server.open(agent, type="approval", prompt="Print it?", context={"artifact": "A poem"})
        risky = server.open(agent, type="confirmation", prompt="Send it?", context={})
        with visiting(browser, shared=False) as page:
            page.goto(f"{chat}/?{approval['review_url']}")
            frame = page.frame_locator("iframe")
            frame.get_by_role("button", name="Approve", exact=True).click()
            expect(frame.get_by_role("heading", level=1)).to_have_text("Approved")

            page.goto(f"{chat}/?{risky['review_url']}")
            with page.expect_popup() as opened:
                frame.get_by_role("link", name="Open in a new tab to decide").click()
            opened.value.get_by_role("button", name="Confirm", exact=True).click()
            expect(opened.value.get_by_role("heading", level=1)).to_have_text("Confirmed")
        actions = [agent.get(one["poll_url"]).json()["result"]["action"] for one in (approval, risky)]
    assert actions == ["approve", "confirm"]
