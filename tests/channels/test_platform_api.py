"""Calls to platform APIs: malformed responses, retries, proxies and TLS."""

from collections.abc import AsyncIterator

import pytest

from placet.channels.platform_api import PlatformApi, Sleep, quote_platform
from placet.errors import SettingsError, Unreachable
from tests.channels.loopback import HANG_UP, Answer, Loopback, loopback

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with loopback(lambda request: Answer(json={"path": request.path})) as server:
        yield server


@pytest.fixture
async def api(server: Loopback, sleep: Sleep) -> AsyncIterator[PlatformApi]:
    api = PlatformApi("Acme", f"{server.url}/v1/", sleep=sleep)
    yield api
    await api.aclose()


async def test_a_secret_path_takes_the_place_of_the_one_for_logs(api: PlatformApi):
    assert (await api.call("GET", "/bot")).body == {"path": "/v1/bot"}
    assert (await api.call("GET", "/bot", secret_path="/bot1:s-e_c")).body == {"path": "/v1/bot1:s-e_c"}


@pytest.mark.parametrize(
    "answer",
    [
        HANG_UP,
        Answer(status=500, json={"error": "x"}),
        Answer(status=200, body=b"<html>captive portal</html>"),
        Answer(status=302, body=b"", headers={"Location": "/elsewhere"}),
        Answer(status=200, body=b'"text"'),
        Answer(status=200, body=b'{"a": "' + b"x" * 1_100_000 + b'"}'),
        Answer(status=403, body=b"\xff"),
    ],
    ids=["hung up", "broken", "page", "redirect", "text", "endless", "garbage"],
)
async def test_malformed_response_is_unreachable(api: PlatformApi, server: Loopback, answer: Answer):
    server.planned.append(answer)
    if answer.status == 302:
        assert not (await api.call("GET", "/x")).is_ok
    else:
        with pytest.raises(Unreachable, match="Acme"):
            await api.call("GET", "/x")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=429, json={"retry_after": 1.5}),
        Answer(status=429, json={"parameters": {"retry_after": 1.5}}),
        Answer(status=429, json={}, headers={"Retry-After": "1.5"}),
    ],
)
async def test_retry_after_is_honoured(
    api: PlatformApi, server: Loopback, recorded_waits: list[float], answer: Answer
):
    server.planned += [answer, answer]
    assert (await api.call("POST", "/x", {"a": 1})).is_ok
    assert recorded_waits == [1.5, 1.5]
    assert [request.json for request in server.requests] == [{"a": 1}] * 3


@pytest.mark.parametrize("asked", [31, -1, "soon", "nan", "inf", None])
async def test_long_or_invalid_retry_after_is_not_waited_for(
    api: PlatformApi, server: Loopback, recorded_waits: list[float], asked: object
):
    server.planned.append(Answer(status=429, json={"retry_after": asked}))
    with pytest.raises(Unreachable):
        await api.call("GET", "/x")
    assert recorded_waits == []


async def test_request_fails_after_three_tries(
    api: PlatformApi, server: Loopback, recorded_waits: list[float]
):
    server.planned += [Answer(status=429, json={"retry_after": 1})] * 3
    with pytest.raises(Unreachable):
        await api.call("GET", "/x")
    assert recorded_waits == [1, 1]


async def test_the_machines_proxy_is_used_and_sees_no_path(server: Loopback, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("https_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.planned.append(Answer(status=407, json={}))
    api = PlatformApi("Acme", "https://platform.example")
    with pytest.raises(Unreachable):
        await api.call("GET", "/x", secret_path="/secret")
    await api.aclose()
    (request,) = server.requests
    assert request.method == "CONNECT"
    assert "secret" not in request.path


async def test_plain_http_is_refused():
    with pytest.raises(SettingsError, match="https"):
        PlatformApi("Acme", "http://platform.example")


def test_platform_error_is_one_line_without_urls():
    said = "Bad URL 'https://acme.example/?token=t'\nis\u202e invalid " + "x" * 900
    told = quote_platform("Acme", said)
    assert told.startswith("Acme says: Bad URL … is⟦U+202E⟧ invalid xxx")
    assert len(told) < 250
    assert quote_platform("Acme", None) == "Acme says: no reason given"
