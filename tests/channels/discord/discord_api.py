"""Discord's HTTP API on the loopback address, its requests checked against the documented limits."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from placet.channels.discord import DiscordChannel
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.clock import DAYBREAK
from placet.testing.platforms import InteractiveHarness, VisibleMessage
from tests.channels.discord import documented_limits
from tests.channels.loopback import HANG_UP, Answer, Loopback, Request

TOKEN = "MTA1.secret.of-the-bot"
APPLICATION = "300"
INTERACTION_TOKEN = "aW50ZXJhY3Rpb246c2VjcmV0"
PLACE = "200"
MESSAGE_FIELDS = {"content", "flags", "allowed_mentions", "components", "message_reference"}
OURS = re.compile(
    r"\\(?P<plain>[^0-9A-Za-z\s])|<t:(?P<time>\d+:[FR])>|<(?P<link>https?://[^\s<>]+)>|(?P<bold>\*\*)"
)
LOOSE = re.compile(r"[\\`*_~|<>#\[\]@]|://")


class DiscordApi:
    """What Discord keeps: messages by id, and what was told by interaction tokens."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.replies: list[str] = []
        self.problems: list[str] = []
        self.numbers = count(1001)

    def handle(self, request: Request) -> Answer:
        path = request.path.removeprefix("/api/v10")
        if path.startswith("/webhooks/"):
            return self.follow_up(path, request.json)
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return refusal(401, 0, "401: Unauthorized")
        if not request.headers["User-Agent"].startswith("DiscordBot ("):
            self.problems.append("the bot does not name itself")
        if path == "/users/@me/channels":
            return Answer(json={"id": "777", "type": 1, "recipients": [request.json]})
        found = re.fullmatch(r"/channels/(\d+)/messages(?:/(\d+))?", path)
        assert found is not None, path
        self.problems += problems_of(request.json)
        if request.method == "PATCH":
            return self.edit(found[2], request.json)
        number = str(next(self.numbers))
        self.messages[number] = request.json
        return Answer(json={"id": number, "channel_id": found[1]})

    def edit(self, number: str, body: dict[str, Any]) -> Answer:
        if number not in self.messages:
            return refusal(404, 10008, "Unknown Message")
        self.messages[number] = body
        return Answer(json={"id": number})

    def follow_up(self, path: str, body: dict[str, Any]) -> Answer:
        if path != f"/webhooks/{APPLICATION}/{INTERACTION_TOKEN}":
            return refusal(404, 10015, "Unknown Webhook")
        self.problems += problems_of(body)
        if not body["flags"] & 64:
            self.problems.append("everyone reads what one person is told")
        self.replies.append(read(body["content"])[0])
        return Answer(json={"id": str(next(self.numbers))})


def refusal(status: int, code: int, words: str, **more: Any) -> Answer:
    return Answer(status=status, json={"message": words, "code": code, **more})


def problems_of(body: dict[str, Any]) -> list[str]:
    unknown = [f"a message has no {name}" for name in body if name not in MESSAGE_FIELDS]
    left = [
        f"markup was left in: {found[0]}"
        for found in LOOSE.finditer(OURS.sub("", strip_quote_marks(body["content"])))
    ]
    return [*unknown, *documented_limits.find_violations(body), *left]


def strip_quote_marks(content: str) -> str:
    """Without our own marks at the beginning of lines: quotes and lists."""
    return re.sub(r"(?m)^(> |- )", "", content)


def read(content: str) -> tuple[str, tuple[str, ...]]:
    """What people read of a message, and where its links lead."""
    links = tuple(found["link"] for found in OURS.finditer(content) if found["link"])
    text = OURS.sub(
        lambda found: found["plain"] or found["time"] or found["link"] or "", strip_quote_marks(content)
    )
    return text, links


class DiscordHarness(InteractiveHarness):
    secrets = (TOKEN, INTERACTION_TOKEN)
    via = "discord_component"

    def __init__(
        self, api: DiscordApi, server: Loopback, channel: DiscordChannel, key: Ed25519PrivateKey
    ) -> None:
        self.api = api
        self.server = server
        self.channel = channel
        self.key = key

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(body) for body in self.api.messages.values()]

    def _shown(self, body: dict[str, Any]) -> VisibleMessage:
        buttons = [button for row in body["components"] for button in row["components"]]
        text, links = read(body["content"])
        return VisibleMessage(
            text=text,
            references=tuple(one["custom_id"] for one in buttons if "custom_id" in one),
            labels=tuple(one["label"] for one in buttons if "custom_id" in one),
            links=(*(one["url"] for one in buttons if "url" in one), *links),
            problems=tuple(self.api.problems),
        )

    def refuse_next(self) -> None:
        self.server.planned.append(refusal(403, 50001, "Missing Access"))

    def slow_down_next(self) -> None:
        limited = {"message": "You are being rate limited.", "retry_after": 0.65, "global": False}
        self.server.planned.append(Answer(status=429, json=limited, headers={"Retry-After": "1"}))

    def fail_next(self) -> None:
        self.server.planned.append(HANG_UP)

    def sign_request(
        self, body: Any, *, at: datetime = DAYBREAK, key: Ed25519PrivateKey | None = None
    ) -> WebhookRequest:
        """A call as Discord makes it."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        timestamp = str(int(at.timestamp()))
        signature = (key or self.key).sign(timestamp.encode() + raw).hex()
        headers = {"x-signature-ed25519": signature, "x-signature-timestamp": timestamp}
        return WebhookRequest(method="POST", headers=headers, body=raw)

    def build_press(self, reference: str, *, user_id: str = "7", name: str = "Ada") -> dict[str, Any]:
        """A press in a server."""
        user = {"id": user_id, "username": "ada", "global_name": name, "discriminator": "0"}
        return {
            "id": str(next(self.api.numbers)),
            "application_id": APPLICATION,
            "type": 3,
            "token": INTERACTION_TOKEN,
            "version": 1,
            "channel_id": PLACE,
            "message": {"id": "1001", "content": "…"},
            "data": {"custom_id": reference, "component_type": 2},
            "member": {"user": user, "roles": [], "permissions": "0"},
        }

    def press(self, ticket: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        return self.sign_request(self.build_press(reference, user_id=user_id, name=name))

    def forgeries(self, call: WebhookRequest) -> Sequence[WebhookRequest]:
        signature, timestamp = call.headers["x-signature-ed25519"], call.headers["x-signature-timestamp"]
        headers = [
            {},
            {"x-signature-ed25519": signature},
            {"x-signature-timestamp": timestamp},
            {"x-signature-ed25519": "00" * 64, "x-signature-timestamp": timestamp},
            {"x-signature-ed25519": "no hex", "x-signature-timestamp": timestamp},
            {"x-signature-ed25519": signature[:-2], "x-signature-timestamp": timestamp},
            {"x-signature-ed25519": signature, "x-signature-timestamp": str(int(timestamp) + 1)},
            {"x-signature-ed25519": signature, "x-signature-timestamp": "\udcff"},
        ]
        altered = call.body.replace(b'"7"', b'"8"')
        assert altered != call.body
        return [
            *(WebhookRequest(method="POST", headers=one, body=call.body) for one in headers),
            WebhookRequest(method="POST", headers=call.headers, body=altered),
            self.sign_request(call.body, key=Ed25519PrivateKey.generate()),
            self.sign_request(call.body, at=DAYBREAK - timedelta(minutes=6)),
            self.sign_request(call.body, at=DAYBREAK + timedelta(minutes=6)),
        ]

    def noise(self) -> Sequence[WebhookRequest]:
        press = self.build_press("x")
        bot = {"user": {"id": "9", "username": "bot", "bot": True}}
        return [
            self.sign_request({"id": "1", "type": 1, "application_id": APPLICATION, "token": "t"}),
            self.sign_request({**press, "type": 2, "data": {"id": "1", "name": "hello"}}),
            self.sign_request({**press, "type": 4}),
            self.sign_request({**press, "type": 99}),
            self.sign_request({**press, "data": {"custom_id": "x", "component_type": 3, "values": []}}),
            self.sign_request({**press, "data": {"custom_id": "x" * 101, "component_type": 2}}),
            self.sign_request({**press, "member": bot}),
            self.sign_request({**press, "member": None}),
            self.sign_request({"id": 1}),
            self.sign_request([]),
            self.sign_request(b"\xff{"),
        ]

    def list_replies(self) -> Sequence[str]:
        return self.api.replies
