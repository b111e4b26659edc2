"""default_ref: a form starts from values that the server fetches through the guard, without credentials."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx
import pytest

from tests.server.running import RunningServer

REPLIES = {
    "/city": ("application/json", b'"Porto"'),
    "/iban": ("text/plain", b"PT50 0002"),
    "/wrong": ("application/json", b'{"not": "text"}'),
}


class Values(BaseHTTPRequestHandler):
    """Serves start values and remembers what it was asked."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization") or self.headers.get("Cookie")))
        kind, body = REPLIES.get(self.path, ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def values() -> Iterator[str]:
    Values.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Values) as source:
        thread = threading.Thread(target=source.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{source.server_port}"
        source.shutdown()
        thread.join(5)


def field(key: str, url: str, **rest: object) -> dict[str, object]:
    return {"key": key, "label": key.title(), "type": "text", "default_ref": url, **rest}


def ask(server: RunningServer, client: httpx.Client, *fields: dict[str, object]) -> dict[str, str]:
    form = {"fields": list(fields)}
    return server.open(client, type="input", prompt="Where to?", context={"form": form})


def test_a_field_starts_from_what_its_reference_holds(
    server: RunningServer, client: httpx.Client, values: str
) -> None:
    hitl = ask(server, client, field("city", f"{values}/city"))
    with server.page(hitl) as page:
        assert 'value="Porto"' in page.text
    assert Values.asked == [("/city", None)]


def test_a_sensitive_start_value_counts_without_reaching_the_page(
    server: RunningServer, client: httpx.Client, values: str
) -> None:
    hitl = ask(server, client, field("iban", f"{values}/iban", sensitive=True, required=True))
    with server.page(hitl) as page:
        assert "PT50" not in page.text
        page.post("respond", {"action": "submit", "asked": "iban", "field.iban": ""})
    result = client.get(hitl["poll_url"]).json()["result"]
    assert result["data"] == {"iban": "PT50 0002"}


@pytest.mark.parametrize("path", ["/wrong", "/missing"])
def test_a_value_that_does_not_fit_is_left_out(
    server: RunningServer, client: httpx.Client, values: str, path: str
) -> None:
    hitl = ask(server, client, field("city", values + path))
    with server.page(hitl) as page:
        assert page.response.status_code == 200
        assert "not" not in page.hidden().values()


def test_an_address_that_the_guard_refuses_is_never_called(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = ask(server, client, field("city", "https://169.254.169.254/latest"))
    with server.page(hitl) as page:
        assert page.response.status_code == 200
