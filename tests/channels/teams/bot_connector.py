"""Microsoft's sign-in, keys and Bot Connector on the loopback address; cards go by the official schema."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import adaptive_cards
import msgspec
from adaptive_cards.validation import MicrosoftTeams
from joserfc import jwk, jwt
from jsonschema import Draft6Validator

from placet.channels.teams import TeamsChannel
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.clock import DAYBREAK
from placet.testing.platforms import InteractiveHarness, VisibleMessage
from tests.channels.loopback import Answer, Loopback, Request
from tests.channels.teams import documented_limits

APP_ID = "11111111-2222-3333-4444-555555555555"
APP_SECRET = "s3cret~of.the-bot"
TENANT = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
CONVERSATION = "19:approvals@thread.tacv2"
PERSON = "99999999-8888-7777-6666-555555555555"
SERVICE_URL = "https://smba.trafficmanager.net/emea/"
NOW = int(DAYBREAK.timestamp())
TEAMS = MicrosoftTeams()
PUBLISHED = ("msteams", "directline")


@cache
def schema() -> Draft6Validator:
    folder = Path(adaptive_cards.__file__).parent / "schemas"
    return Draft6Validator(json.loads((folder / f"schema-{TEAMS.schema_version()}.json").read_text("utf-8")))


@cache
def signing_key(kid: str) -> jwk.RSAKey:
    return jwk.RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


class BotConnector:
    """What Microsoft keeps: the bot's tokens, its conversations and their messages."""

    def __init__(self) -> None:
        self.url = ""
        self.messages: dict[str, dict[str, Any]] = {}
        self.notes: list[dict[str, Any]] = []
        self.conversations: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.numbers = count(1)
        self.token = ""
        self.kids = ["key-1"]
        self.endorsements: tuple[str, ...] | None = PUBLISHED
        self.sign_ins = 0

    def handle(self, request: Request) -> Answer:
        if request.path == f"/{TENANT}/oauth2/v2.0/token":
            return self.on_sign_in(parse_qs(request.body.decode()))
        if request.path == "/v1/.well-known/openidconfiguration":
            known = {"issuer": "https://api.botframework.com", "jwks_uri": f"{self.url}/v1/.well-known/keys"}
            return Answer(json={**known, "id_token_signing_alg_values_supported": ["RS256"]})
        if request.path == "/v1/.well-known/keys":
            return Answer(json={"keys": [self.build_public_key(kid) for kid in self.kids]})
        if not self.token or request.headers.get("Authorization") != f"Bearer {self.token}":
            return refusal(401, "Unauthorized")
        return self.on_connector(request.method, unquote(request.path), request.json)

    def on_sign_in(self, form: dict[str, list[str]]) -> Answer:
        expected = {
            "grant_type": ["client_credentials"],
            "client_id": [APP_ID],
            "client_secret": [APP_SECRET],
            "scope": ["https://api.botframework.com/.default"],
        }
        if form != expected:
            return Answer(401, {"error": "invalid_client", "error_description": f"secret {APP_SECRET}"})
        self.sign_ins += 1
        self.token = f"bot-token-{self.sign_ins}"
        return Answer(json={"token_type": "Bearer", "expires_in": 3599, "access_token": self.token})

    def on_connector(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        if (method, path) == ("POST", "/teams/v3/conversations"):
            self.conversations.append(body)
            return Answer(status=201, json={"id": "a:personal/1"})
        prefix, _, message_id = path.partition("/activities")
        if not prefix.startswith("/teams/v3/conversations/"):
            return refusal(404, "ServiceError")
        if method == "PUT":
            return self.on_update(message_id.removeprefix("/"), body)
        number = f"1794700000{next(self.numbers):03}"
        if "attachments" in body:
            self.problems += problems_of(body)
            self.messages[number] = {**body, "place": prefix.rpartition("/conversations/")[2]}
        else:
            self.notes.append({**body, "place": prefix.rpartition("/conversations/")[2]})
        return Answer(status=201, json={"id": number})

    def on_update(self, message_id: str, body: dict[str, Any]) -> Answer:
        if message_id not in self.messages:
            return refusal(404, "ActivityNotFoundInConversation")
        self.problems += problems_of(body)
        self.messages[message_id] = {**body, "place": self.messages[message_id]["place"]}
        return Answer(json={"id": message_id})

    def build_public_key(self, kid: str) -> dict[str, Any]:
        key: dict[str, Any] = dict(signing_key(kid).as_dict(private=False))
        return key | ({"endorsements": list(self.endorsements)} if self.endorsements is not None else {})


def refusal(status: int, code: str) -> Answer:
    message = f"see https://teams.example/?secret={APP_SECRET}"
    return Answer(status=status, json={"error": {"code": code, "message": message}})


def problems_of(body: dict[str, Any]) -> list[str]:
    """What the official schema and our own table find wrong in a message."""
    (attachment,) = body["attachments"]
    card = attachment["content"]
    found = [f"{error.json_path}: {error.message}" for error in schema().iter_errors(card)]
    if len(msgspec.json.encode(card)) > TEAMS.max_card_size() * 1024:
        found.append("the card is too large")
    if attachment["contentType"] != "application/vnd.microsoft.card.adaptive":
        found.append("the attachment is no Adaptive Card")
    found += [
        f"a message has no {name}" for name in body if name not in ("type", "summary", "attachments", "id")
    ]
    return [*found, *documented_limits.find_violations(card)]


def read_visible_text(card: dict[str, Any]) -> str:
    """What a person reads of a card, besides its buttons."""
    blocks = [part["inlines"] for part in card["body"] if part["type"] == "RichTextBlock"]
    return "\n".join("".join(run["text"] for run in inlines) for inlines in blocks)


def sign_token(kid: str | None = "key-1", *, alg: str = "RS256", key: Any = None, **changes: Any) -> str:
    """The token with a call, as Microsoft signs it."""
    claims = {
        "iss": "https://api.botframework.com",
        "aud": APP_ID,
        "nbf": NOW - 60,
        "exp": NOW + 3540,
        "serviceurl": SERVICE_URL,
    } | changes
    kept = {name: value for name, value in claims.items() if value is not None}
    header = {"alg": alg} if kid is None else {"alg": alg, "kid": kid}
    token = jwt.encode(header, kept, key or signing_key(kid or "key-1"), algorithms=[alg])
    return f"Bearer {token}"


def build_request(activity: Any, authorization: str | None = None) -> WebhookRequest:
    headers = {"content-type": "application/json", "authorization": authorization or sign_token()}
    return WebhookRequest(method="POST", headers=headers, body=msgspec.json.encode(activity))


def invoke(reference: Any, number: int, **changes: Any) -> dict[str, Any]:
    """The activity for a press, as Teams sends it."""
    data = {"reference": reference}
    action = {"type": "Action.Execute", "title": "Approve", "verb": "placet.press", "data": data}
    return {
        "type": "invoke",
        "name": "adaptiveCard/action",
        "id": f"f:{number}",
        "timestamp": "2026-11-15T12:00:00.000Z",
        "channelId": "msteams",
        "serviceUrl": SERVICE_URL,
        "from": {"id": "29:1abc", "name": "Ada", "aadObjectId": "4711"},
        "conversation": {"id": "a:personal/1", "conversationType": "personal", "tenantId": TENANT},
        "recipient": {"id": f"28:{APP_ID}", "name": "Placet"},
        "replyToId": "1794700000001",
        "value": {"action": action, "trigger": "manual"},
        "channelData": {"tenant": {"id": TENANT}, "source": {"name": "message"}},
    } | changes


class TeamsHarness(InteractiveHarness):
    secrets = (APP_SECRET, "bot-token-")
    via = "teams_adaptive_card"

    def __init__(self, connector: BotConnector, server: Loopback, channel: TeamsChannel) -> None:
        self.connector = connector
        self.server = server
        self.channel = channel

    def get_user_id(self, user_id: str) -> str:
        return f"{TENANT}:{user_id}"

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(message) for message in self.connector.messages.values()]

    def _shown(self, message: dict[str, Any]) -> VisibleMessage:
        card = message["attachments"][0]["content"]
        actions = [one for part in card["body"] if part["type"] == "ActionSet" for one in part["actions"]]
        presses = [one for one in actions if one["type"] == "Action.Execute"]
        return VisibleMessage(
            text=read_visible_text(card),
            references=tuple(one["data"]["reference"] for one in presses),
            labels=tuple(one["title"] for one in presses),
            links=tuple(one["url"] for one in actions if one["type"] == "Action.OpenUrl"),
            problems=tuple(self.connector.problems),
        )

    def _plan(self, answer: Answer) -> None:
        # The bot signs in before its first call; what is planned is for the call itself.
        if not self.connector.token:
            self.server.planned.append(
                self.connector.on_sign_in(
                    {
                        "grant_type": ["client_credentials"],
                        "client_id": [APP_ID],
                        "client_secret": [APP_SECRET],
                        "scope": ["https://api.botframework.com/.default"],
                    }
                )
            )
        self.server.planned.append(answer)

    def refuse_next(self) -> None:
        self._plan(refusal(403, "BotNotInConversationRoster"))

    def slow_down_next(self) -> None:
        self._plan(Answer(429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": "3"}))

    def fail_next(self) -> None:
        self._plan(Answer(status=502, body=b"<html>Bad Gateway</html>"))

    def press(self, ticket: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        sender = {"id": "29:1abc", "name": name, "aadObjectId": user_id}
        number = next(self.connector.numbers)
        return build_request(invoke(reference, number, replyToId=ticket.message_id, **{"from": sender}))

    def forgeries(self, call: WebhookRequest) -> Sequence[WebhookRequest]:
        activity = msgspec.json.decode(call.body)
        stranger = signing_key("key-2")
        secret = jwk.OctKey.import_key(APP_ID)
        genuine = sign_token()
        head, payload, signature = genuine.removeprefix("Bearer ").split(".")
        tokens = [
            "",
            "Bearer",
            "Bearer ",
            genuine.removeprefix("Bearer "),
            f"Basic {genuine.removeprefix('Bearer ')}",
            "Bearer a.b.c",
            f"Bearer {head}.{payload}",
            f"Bearer {head}.{payload}.",
            f"Bearer {head}.{payload}.{signature[:-8]}AAAAAAAA",
            f"Bearer {'x' * 20_000}",
            sign_token(None),
            "Bearer \udcff",
            sign_token(key=stranger),
            sign_token("key-2"),
            sign_token(alg="HS256", key=secret),
            sign_token(alg="RS384"),
            sign_token(iss="https://sts.windows.net/"),
            sign_token(iss=None),
            sign_token(aud="another-bot"),
            sign_token(aud=[APP_ID]),
            sign_token(aud=None),
            sign_token(exp=NOW - 301),
            sign_token(exp=None),
            sign_token(exp="tomorrow"),
            sign_token(exp=True),
            sign_token(nbf=NOW + 301),
            sign_token(serviceurl="https://elsewhere.example/"),
            sign_token(serviceurl=None),
        ]
        forged = [
            WebhookRequest(method="POST", headers={"authorization": one}, body=call.body) for one in tokens
        ]
        bodies = [
            {**activity, "serviceUrl": "https://elsewhere.example/"},
            {name: value for name, value in activity.items() if name != "serviceUrl"},
            {**activity, "channelId": "webchat"},
            [],
        ]
        unsigned = WebhookRequest(method="POST", headers={}, body=call.body)
        broken = WebhookRequest(method="POST", headers=call.headers, body=b"\xff{")
        return [*forged, unsigned, broken, *(build_request(body) for body in bodies)]

    def noise(self) -> Sequence[WebhookRequest]:
        value = invoke("x", 1)["value"]
        changed: list[dict[str, Any]] = [
            {"type": "message", "name": None, "text": "hello"},
            {"type": "conversationUpdate"},
            {"name": "task/fetch"},
            {"channelId": "directline"},
            {"value": None},
            {"value": []},
            {"value": {"action": None}},
            {"value": {"action": {**value["action"], "verb": "refresh"}}},
            {"value": {"action": {**value["action"], "data": "x"}}},
            {"value": {"action": {**value["action"], "data": {}}}},
            {"value": {"action": {**value["action"], "data": {"reference": 7}}}},
            {"value": {"action": {**value["action"], "data": {"reference": "x" * 65}}}},
            {"value": {"action": {**value["action"], "data": {"reference": ""}}}},
            {"from": {"id": "29:guest", "name": "Nobody"}},
            {"channelData": {}, "conversation": {"id": "a:personal/1"}},
            {"id": ""},
            {"id": "f:1\r\nX-Header: y"},
            {"id": "f:é"},
        ]
        return [build_request(invoke("x", 1, **one)) for one in changed]

    def list_replies(self) -> Sequence[str]:
        return [note["text"] for note in self.connector.notes]
