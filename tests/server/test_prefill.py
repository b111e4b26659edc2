"""default_ref: a form starts from values that the server fetches through the guard, with a token."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx
import pytest

from placet.errors import SignatureInvalid
from placet.signing.prefill_token import verify_prefill_token
from tests.server.running import RunningServer

REPLIES = {
    "/city": ("application/json", b'"Porto"'),
    "/iban": ("text/plain", b"PT50 0002"),
    "/wrong": ("application/json", b'{"not": "text"}'),
}


class ValueHandler(BaseHTTPRequestHandler):
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
    ValueHandler.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), ValueHandler) as source:
        thread = threading.Thread(target=source.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{source.server_port}"
        source.shutdown()
        thread.join(60)


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
    assert [path for path, _ in ValueHandler.asked] == ["/city"]


def test_only_a_request_of_the_server_carries_a_token_for_this_address(
    server: RunningServer, client: httpx.Client, values: str
) -> None:
    url = f"{values}/city"
    hitl = ask(server, client, field("city", url))
    with server.page(hitl) as page:
        [(_, header)] = ValueHandler.asked
        token = str(header).removeprefix("Bearer ")
        assert token.count(".") == 2
        assert token not in page.text
    jwks = client.get("/.well-known/jwks.json").json()
    now = server.clock()
    claims = verify_prefill_token(token, jwks, url=url, now=now)
    assert (claims.sub, claims.field) == (hitl["case_id"], "city")
    head, payload, signature = token.split(".")
    other = ("A" if signature[0] != "A" else "B") + signature[1:]
    for wrong, address, moment, said in (
        (token, f"{values}/iban", now, "another address"),
        (token, url, now + timedelta(minutes=2), "expired"),
        (token, url, now - timedelta(minutes=2), "not valid yet"),
        (f"{head}.{payload}.{other}", url, now, "."),
        (f"{head}.{payload[:-4]}AAAA.{signature}", url, now, "."),
        ("a.b.c", url, now, "not a token"),
        ("é..", url, now, "not a token"),
    ):
        with pytest.raises(SignatureInvalid, match=said):
            verify_prefill_token(wrong, jwks, url=address, now=moment)


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
        assert "not" not in page.hidden_fields().values()


@pytest.mark.parametrize(
    "url", ["https://169.254.169.254/latest", "https://10.0.0.1/", "http://example.com/"]
)
def test_an_address_that_the_guard_refuses_is_refused_at_once(client: httpx.Client, url: str) -> None:
    draft = {"type": "input", "prompt": "Where to?", "context": {"form": {"fields": [field("city", url)]}}}
    response = client.post("/v1/cases", json=draft)
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_form"
    assert "default_ref" in response.json()["message"]


def test_one_page_view_starts_only_so_many_requests(client: httpx.Client) -> None:
    fields = [field(f"f{number}", "https://values.example.com/") for number in range(21)]
    draft = {"type": "input", "prompt": "Where to?", "context": {"form": {"fields": fields}}}
    assert client.post("/v1/cases", json=draft).json()["error"] == "invalid_form"
