"""Web push: a browser subscribes in the inbox, and a push service gets what only that browser can read."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path

import http_ece
import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from placet.notify.settings import NotifySettings
from tests.channels.loopback import Answer, Loopback, Request, loopback
from tests.notify.notified_people import wait_until_delivered
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
GONE = "gone"


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Browser:
    """What a browser keeps of its subscription."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.auth = b"0123456789abcdef"
        self.key = ec.generate_private_key(ec.SECP256R1())

    @property
    def subscription(self) -> dict[str, str]:
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return {"endpoint": self.endpoint, "p256dh": encode(point), "auth": encode(self.auth)}

    def read(self, request: Request) -> dict[str, str]:
        """The message in a request to the push service."""
        text = http_ece.decrypt(
            request.body, private_key=self.key, auth_secret=self.auth, version="aes128gcm"
        )
        message: dict[str, str] = msgspec.json.decode(text)
        return message


@pytest.fixture
async def push_service() -> AsyncIterator[Loopback]:
    def answer(request: Request) -> Answer:
        return Answer(status=410 if request.path.endswith(GONE) else 201, json={})

    async with loopback(answer) as service:
        yield service


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    settings = {
        "recipients": {"ada": {"send_to": ["webpush:ada"]}},
        "rules": [{"recipients": ["ada"]}],
        "web_push_hosts": ["127.0.0.1"],
        "web_push_contact": "mailto:ops@acme.example",
    }
    work = running(tmp_path, present=True, notify=msgspec.convert(settings, NotifySettings))
    server = await asyncio.to_thread(work.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(work.__exit__, None, None, None)


class SignedInBrowser:
    """A browser that is signed in to the inbox as Ada."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.http = httpx.Client(base_url=server.url, follow_redirects=True, timeout=PATIENCE_S)
        key = server.create_key("ada", "inbox:all")
        page = self.http.post("/inbox/sign-in", data={"key": key}, headers={"Origin": server.url}).text
        self.csrf = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
        self.push_key = re.findall(r'data-push="([^"]+)"', page)[0]

    def subscribe(self, browser: Browser, **changes: str) -> int:
        fields = {"csrf": self.csrf, **browser.subscription, **changes}
        headers = {"Origin": self.server.url}
        return self.http.post("/inbox/notifications", data=fields, headers=headers).status_code


@pytest.fixture
async def ada(server: RunningServer) -> AsyncIterator[SignedInBrowser]:
    browser = await asyncio.to_thread(SignedInBrowser, server)
    yield browser
    browser.http.close()


async def test_a_new_case_reaches_the_browser_encrypted_and_signed(
    server: RunningServer, ada: SignedInBrowser, push_service: Loopback
):
    browser, gone = Browser(f"{push_service.url}/send/1"), Browser(f"{push_service.url}/send/{GONE}")
    for one in (browser, gone):
        assert await asyncio.to_thread(ada.subscribe, one) == 204
    with server.client(server.api_key) as client:
        hitl = await asyncio.to_thread(server.open, client, prompt="Water the plants?")
        await push_service.wait_until(lambda: len(push_service.requests) == 2, within=PATIENCE_S)
        (sent,) = push_service.at("/send/1")
        message = browser.read(sent)
        assert message["body"] == "Water the plants?"
        assert message["title"].startswith("acme (127.0.0.1) asks")
        assert message["url"].startswith(f"{server.url}/review/{hitl['case_id']}?token=")
        assert b"Water" not in sent.body
        assert (sent.headers["Content-Encoding"], sent.headers["Urgency"]) == ("aes128gcm", "high")

        found = re.fullmatch(r"vapid t=([^,]+),k=(.+)", sent.headers["Authorization"])
        assert found is not None
        token, key = found.groups()
        assert key == ada.push_key
        point = base64.urlsafe_b64decode(key + "==")
        public = ECKey.import_key(
            {"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
        )
        claims = jwt.decode(token, public, algorithms=["ES256"]).claims
        assert (claims["aud"], claims["sub"]) == (push_service.url, "mailto:ops@acme.example")

        await wait_until_delivered(server, hitl)
        await asyncio.to_thread(client.post, f"/v1/reviews/{hitl['case_id']}/cancel", json={})
        await push_service.wait_until(lambda: len(push_service.at("/send/1")) == 2, within=PATIENCE_S)
        closed = browser.read(push_service.at("/send/1")[1])
        assert closed["title"].startswith("Withdrawn")
        assert closed["tag"] == message["tag"]
        assert len(push_service.at(GONE)) == 1  # forgotten after the 410


async def test_only_known_push_services_and_real_keys_are_taken(
    server: RunningServer, ada: SignedInBrowser, push_service: Loopback
):
    browser = Browser(f"{push_service.url}/send/1")

    def subscribe(**changes: str) -> int:
        return ada.subscribe(browser, **changes)

    def run() -> list[int]:
        return [
            subscribe(endpoint="https://evil.example/send"),
            subscribe(endpoint="http://169.254.169.254/latest"),
            subscribe(endpoint="https://127.0.0.1.evil.example/send"),
            subscribe(endpoint="file:///etc/passwd"),
            subscribe(endpoint="https://[::1"),
            subscribe(endpoint=f"{push_service.url}/{'x' * 3000}"),
            subscribe(p256dh="AAAA"),
            subscribe(auth="%%%"),
            subscribe(csrf="guessed"),
            subscribe(),
            subscribe(off="1"),
        ]

    *refused, taken, removed = await asyncio.to_thread(run)
    assert (taken, removed) == (204, 204)
    assert all(400 <= status < 500 for status in refused), refused
    found = await asyncio.to_thread(server.run, server.parts.store.list_push_subscriptions("ada"))
    assert list(found) == []
    worker = await asyncio.to_thread(ada.http.get, "/inbox/worker.js")
    assert worker.headers["content-type"].startswith("text/javascript")
