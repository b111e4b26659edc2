"""CORS: scripts of listed web origins may call the API; nothing else changes."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from placet.errors import SettingsError
from placet.settings import build_settings, load
from tests.server.running import RunningServer, running

APP = "https://app.example"
ASKED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
STRANGERS = [
    *(
        "https://app.example.evil.test",
        "http://app.example",
        "https://app.example:444",
        "https://APP.example",
    ),
    *(
        "https://app.example/",
        "https://xapp.example",
        "null",
        "*",
        "",
        "https://app.example, https://b.example",
    ),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that lists two origins."""
    folder = tmp_path_factory.mktemp("cors")
    with running(folder, cors_origins=(APP, "http://localhost:5173")) as server:
        yield server


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("cors"), cors_origins=("*",)) as server:
        yield server


def list_cors_headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("origin", [APP, "http://localhost:5173"])
@pytest.mark.parametrize("path", ["/v1/reviews", "/.well-known/hitl.json", "/openapi.json"])
def test_script_of_a_listed_origin_may_read_replies(shared: RunningServer, origin: str, path: str) -> None:
    with shared.client(shared.api_key) as client:
        response = client.get(path, headers={"Origin": origin})
    assert response.is_success
    assert response.headers["access-control-allow-origin"] == origin
    assert "ETag" in response.headers["access-control-expose-headers"]
    assert "Origin" in response.headers["vary"]
    assert "access-control-allow-credentials" not in response.headers


def test_errors_can_be_read_too(shared: RunningServer) -> None:
    with shared.client() as client:
        response = client.post("/v1/cases", content=b"{", headers={"Origin": APP})
        missing = client.get("/v1/nothing", headers={"Origin": APP})
    assert (response.status_code, missing.status_code) == (401, 404)
    assert response.headers["access-control-allow-origin"] == APP
    assert missing.headers["access-control-allow-origin"] == APP


@pytest.mark.parametrize("path", ["/v1/cases", "/v1/reviews/review_1/cancel", "/v1/grants/use"])
def test_preflight_of_a_listed_origin_is_answered(shared: RunningServer, path: str) -> None:
    with shared.client() as client:
        response = client.options(path, headers={"Origin": APP, **ASKED})
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["access-control-allow-origin"] == APP
    assert "Authorization" in response.headers["access-control-allow-headers"]
    assert "POST" in response.headers["access-control-allow-methods"]
    assert "*" not in "".join(list_cors_headers(response).values())
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("origin", STRANGERS)
def test_other_origins_get_nothing(shared: RunningServer, origin: str) -> None:
    with shared.client(shared.api_key) as client:
        read = client.get("/v1/reviews", headers={"Origin": origin})
        asked = client.options("/v1/cases", headers={"Origin": origin, **ASKED})
    assert list_cors_headers(read) == list_cors_headers(asked) == {}
    assert "Origin" in read.headers["vary"]
    assert not asked.is_success


def test_reply_without_origin_varies_by_origin(shared: RunningServer) -> None:
    with shared.client() as client:
        response = client.get("/.well-known/jwks.json")
    assert list_cors_headers(response) == {}
    assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize("path", ["/inbox", "/docs", "/healthz", "/metrics", "/review/x", "/v1", "/v1x/"])
def test_pages_are_shared_with_nobody(shared: RunningServer, open_to_all: RunningServer, path: str) -> None:
    for server in (shared, open_to_all):
        with server.client() as client:
            read = client.get(path, headers={"Origin": APP})
            asked = client.options(path, headers={"Origin": APP, **ASKED})
        assert list_cors_headers(read) == list_cors_headers(asked) == {}


def test_star_allows_every_origin_and_no_credentials(open_to_all: RunningServer) -> None:
    with open_to_all.client() as client:
        response = client.get("/.well-known/hitl.json", headers={"Origin": "https://any.example"})
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers


def test_event_stream_can_be_read_by_a_listed_origin_as_it_comes(shared: RunningServer) -> None:
    with shared.client(shared.api_key) as client:
        hitl = shared.open(client)
        with client.stream("GET", hitl["events_url"], headers={"Origin": APP}) as response:
            assert response.headers["access-control-allow-origin"] == APP
            assert next(response.iter_bytes())


def test_without_the_setting_nothing_is_shared(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        read = client.get("/.well-known/hitl.json", headers={"Origin": APP})
        asked = client.options("/v1/cases", headers={"Origin": APP, **ASKED})
    assert list_cors_headers(read) == list_cors_headers(asked) == {}
    assert asked.status_code == 405


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "app.example",
            "https://app.example/",
            "https://app.example/x",
            "https://*.example",
            "null",
            "https://",
        ),
        *("https://App.example", "https://app.example:443", "http://app.example:80", "ftp://app.example"),
        *(
            "https://app.example\n",
            "https://user@app.example",
            "https://app.example?x",
            "https://app.example:0",
        ),
    ],
)
def test_invalid_origin_is_refused_and_named(origin: str) -> None:
    with pytest.raises(SettingsError, match="cors_origins"):
        build_settings({"cors_origins": [origin]})


def test_environment_names_several_origins_with_commas() -> None:
    environ = {"PLACET_CORS_ORIGINS": f" {APP} ,https://b.example,"}
    assert load(environ=environ).settings.cors_origins == (APP, "https://b.example")
    assert load(environ={"PLACET_CORS_ORIGINS": ""}).settings.cors_origins == ()
    assert build_settings({"cors_origins": ["http://[::1]:3000", "*"]}).cors_origins == (
        "http://[::1]:3000",
        "*",
    )
