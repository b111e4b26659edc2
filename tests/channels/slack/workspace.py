"""Slack's Web API and Socket Mode on the loopback address, requests checked with slack_sdk's own models."""

from collections.abc import Sequence
from itertools import count
from typing import Any
from urllib.parse import urlencode

import msgspec
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block
from slack_sdk.signature import SignatureVerifier

from placet.channels.slack import SlackChannel
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.clock import DAYBREAK
from placet.testing.platforms import InteractiveHarness, VisibleMessage
from tests.channels.loopback import Answer, Loopback, Request
from tests.channels.slack import documented_limits

TOKEN = "xoxb-1234-secret-of-the-bot"
APP_TOKEN = "xapp-1-A1-2-secret-of-the-app"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
PLACE = "C0123"
TEAM = "T01"
NOW = int(DAYBREAK.timestamp())
# What slack_sdk's web client sends with each call, besides `channel`.
KNOWN = {
    "chat.postMessage": {"channel", "text", "blocks", "unfurl_links", "unfurl_media", "thread_ts"},
    "chat.update": {"channel", "ts", "text", "blocks"},
    "chat.postEphemeral": {"channel", "user", "text", "thread_ts"},
    "apps.connections.open": set(),
}


class Workspace:
    """What Slack keeps: messages by their time stamp, and notes that one person sees."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.notes: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.numbers = count(1)
        self.socket_url = ""
        self.tickets = count(1)

    def handle(self, request: Request) -> Answer:
        method = request.path.rpartition("/")[2]
        token = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if request.headers.get("Authorization") != f"Bearer {token}":
            return refusal("invalid_auth")
        self.problems += problems_of(method, request.json)
        return getattr(self, "on_" + method.replace(".", "_"))(request.json)

    def on_chat_postMessage(self, body: dict[str, Any]) -> Answer:
        stamp = f"1794700000.{next(self.numbers):06}"
        self.messages[stamp] = body
        return Answer(json={"ok": True, "channel": PLACE, "ts": stamp, "message": {"text": body["text"]}})

    def on_chat_update(self, body: dict[str, Any]) -> Answer:
        if body["ts"] not in self.messages or body["channel"] != PLACE:
            return refusal("message_not_found")
        self.messages[body["ts"]] = body
        return Answer(json={"ok": True, "channel": PLACE, "ts": body["ts"], "text": body["text"]})

    def on_chat_postEphemeral(self, body: dict[str, Any]) -> Answer:
        self.notes.append(body)
        return Answer(json={"ok": True, "message_ts": "1.2"})

    def on_apps_connections_open(self, body: dict[str, Any]) -> Answer:
        return Answer(json={"ok": True, "url": f"{self.socket_url}/link?ticket=t{next(self.tickets)}"})

    def interaction(self, stamp: str, value: str, **changes: Any) -> dict[str, Any]:
        """What Slack sends for a press, new each time."""
        number = next(self.numbers)
        button = {"type": "button", "block_id": "b", "text": {"type": "plain_text", "text": "Approve"}}
        action = {
            **button,
            "action_id": "placet.press.0",
            "value": value,
            "action_ts": f"1794700001.{number:06}",
        }
        return {
            "type": "block_actions",
            "user": {"id": "U7", "username": "ada", "name": "ada", "team_id": TEAM},
            "api_app_id": "A1",
            "token": "deprecated",
            "container": {
                "type": "message",
                "message_ts": stamp,
                "channel_id": PLACE,
                "is_ephemeral": False,
            },
            "trigger_id": f"1.2.{number}",
            "team": {"id": TEAM, "domain": "acme"},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": PLACE, "name": "approvals"},
            "message": {"ts": stamp, "type": "message"},
            "response_url": "https://hooks.slack.com/actions/T01/1/secret",
            "actions": [action],
        } | changes


def refusal(error: str) -> Answer:
    return Answer(json={"ok": False, "error": error})


def problems_of(method: str, body: dict[str, Any]) -> list[str]:
    """What slack_sdk's models, and our own table, find wrong in a request."""
    found = [f"{method} has no {name}" for name in body if name not in KNOWN[method]]
    if "blocks" not in body:
        return found
    try:
        read = [block.to_dict() for block in Block.parse_all(body["blocks"])]
    except SlackObjectFormationError as error:
        return [*found, str(error)]
    found += [
        f"{ours} is read as {theirs}"
        for ours, theirs in zip(body["blocks"], read, strict=True)
        if ours != theirs
    ]
    if method == "chat.postMessage" and (body["unfurl_links"] or body["unfurl_media"]):
        found.append("a preview is fetched")
    return [*found, *documented_limits.find_violations(body)]


def sign_request(body: bytes, *, at: int = NOW, secret: str = SECRET) -> WebhookRequest:
    """A call as Slack signs it, by slack_sdk's own hand."""
    signature = SignatureVerifier(secret).generate_signature(timestamp=str(at), body=body)
    assert signature is not None
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": str(at),
        "x-slack-signature": signature,
    }
    return WebhookRequest(method="POST", headers=headers, body=body)


def form(payload: Any) -> bytes:
    return urlencode({"payload": msgspec.json.encode(payload).decode()}).encode()


def with_headers(call: WebhookRequest, **changes: str | None) -> WebhookRequest:
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    headers = {**call.headers, **named}
    kept = {name: value for name, value in headers.items() if value is not None}
    return WebhookRequest(method="POST", headers=kept, body=call.body)


class SlackHarness(InteractiveHarness):
    secrets = (TOKEN, APP_TOKEN, SECRET)
    via = "slack_block_action"

    def __init__(self, workspace: Workspace, server: Loopback, channel: SlackChannel) -> None:
        self.workspace = workspace
        self.server = server
        self.channel = channel

    def get_user_id(self, user_id: str) -> str:
        return f"{TEAM}:{user_id}"

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(body) for body in self.workspace.messages.values()]

    def _shown(self, body: dict[str, Any]) -> VisibleMessage:
        buttons = [element for block in body["blocks"] for element in block.get("elements", [])]
        buttons = [button for button in buttons if button["type"] == "button"]
        return VisibleMessage(
            text="\n".join(texts_of(body["blocks"])),
            references=tuple(button["value"] for button in buttons if "value" in button),
            labels=tuple(button["text"]["text"] for button in buttons if "value" in button),
            links=tuple(button["url"] for button in buttons if "url" in button),
            problems=tuple(self.workspace.problems),
        )

    def refuse_next(self) -> None:
        self.server.planned.append(refusal("not_in_channel"))

    def slow_down_next(self) -> None:
        headers = {"Retry-After": "3"}
        self.server.planned.append(Answer(429, {"ok": False, "error": "ratelimited"}, headers))

    def fail_next(self) -> None:
        self.server.planned.append(Answer(status=503, body=b"<html>upstream connect error</html>"))

    def press(self, ticket: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        user = {"id": user_id, "username": name, "name": name, "team_id": TEAM}
        return sign_request(form(self.workspace.interaction(ticket.message_id, reference, user=user)))

    def forgeries(self, call: WebhookRequest) -> Sequence[WebhookRequest]:
        altered = WebhookRequest(
            method="POST", headers=call.headers, body=call.body.replace(b"4711", b"4712") + b"&"
        )
        return [
            WebhookRequest(method="POST", headers={}, body=call.body),
            altered,
            sign_request(call.body, secret="guessed"),
            sign_request(call.body, at=NOW - 301),
            sign_request(call.body, at=NOW + 301),
            with_headers(call, x_slack_signature=None),
            with_headers(call, x_slack_signature="v0="),
            with_headers(call, x_slack_signature=call.headers["x-slack-signature"].removeprefix("v0=")),
            with_headers(call, x_slack_signature="\udcff"),
            with_headers(call, x_slack_request_timestamp=None),
            with_headers(call, x_slack_request_timestamp=str(NOW + 1)),
            with_headers(call, x_slack_request_timestamp="now"),
            with_headers(call, x_slack_request_timestamp="²"),
            with_headers(call, x_slack_request_timestamp="-1"),
            with_headers(call, x_slack_request_timestamp="9" * 5000),
        ]

    def noise(self) -> Sequence[WebhookRequest]:
        interaction = self.workspace.interaction
        link = {"type": "button", "action_id": "placet.link", "action_ts": "1.2", "value": "x"}
        foreign = {**link, "action_id": "someone.elses"}
        menu = {**link, "type": "static_select", "action_id": "placet.press.0"}
        endless = {**link, "action_id": "placet.press.0", "value": "x" * 65}
        empty = {**endless, "value": ""}
        odd = {**endless, "value": "x", "action_ts": "1\r\nX-Header: y"}
        return [
            sign_request(b"ssl_check=1&token=deprecated"),
            sign_request(form(interaction("1.1", "x", type="view_submission"))),
            sign_request(form(interaction("1.1", "x", type="something_new"))),
            *(
                sign_request(form(interaction("1.1", "x", actions=[one])))
                for one in (link, foreign, menu, endless, empty, odd)
            ),
            sign_request(form(interaction("1.1", "x", actions="none"))),
            sign_request(form(interaction("1.1", "x", user=None))),
            sign_request(form([])),
            sign_request(b"payload={"),
            sign_request(b"&".join([b"a=b"] * 100)),
            sign_request(b""),
        ]

    def list_replies(self) -> Sequence[str]:
        return [note["text"] for note in self.workspace.notes]


def texts_of(part: Any) -> list[str]:
    """Every text in some blocks, as plain text shows it."""
    if isinstance(part, list):
        return [text for one in part for text in texts_of(one)]
    if not isinstance(part, dict):
        return []
    if part.get("type") == "plain_text":
        assert part["emoji"] is False
        return [part["text"]]
    return [text for one in part.values() for text in texts_of(one)]
