"""WhatsApp's Cloud API on the loopback address, its requests checked against the documented shapes."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from placet.channels.whatsapp import WhatsAppChannel
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.platforms import InteractiveHarness, VisibleMessage
from tests.channels.loopback import Answer, Loopback, Request
from tests.channels.whatsapp.documented_limits import find_violations

ACCESS_TOKEN = "EAAsecretAccessToken"
APP_SECRET = "app-secret-0123456789"
VERIFY_TOKEN = "verify-token-0123456789"
PHONE_NUMBER_ID = "106540352242922"
TO = "41791234567"
TEMPLATE = "placet_question"
READ_AS = str.maketrans({"\u2217": "*", "\u02cd": "_", "\u223c": "~", "\u02cb": "`", "\u203a": ">"})


def text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "pattern": r"\S"}


def object_schema(**properties: Any) -> dict[str, Any]:
    """An object with all of these and nothing else."""
    named = {
        name: one if isinstance(one, dict) and one else {"const": one} for name, one in properties.items()
    }
    return {
        "type": "object",
        "properties": named,
        "required": list(named),
        "additionalProperties": False,
    }


# From the platform's documentation of each kind of message, apart from what the channel itself knows.
CONTEXT = object_schema(message_id={"type": "string", "pattern": r"^wamid\."})
REPLY = object_schema(type="reply", reply=object_schema(id=text(256), title=text(20)))
LINK = object_schema(
    name="cta_url",
    parameters=object_schema(
        display_text=text(20), url={"type": "string", "pattern": "^https://", "maxLength": 2048}
    ),
)
PARAMETER = object_schema(
    type="text", text={"type": "string", "minLength": 1, "pattern": r"^(?!.*[\n\t]|.* {5})"}
)
KINDS = {
    "text": object_schema(body=text(4096), preview_url={"const": False}),
    "interactive": {
        "oneOf": [
            object_schema(
                type=kind,
                header=object_schema(type="text", text=text(60)),
                body=object_schema(text=text(1024)),
                footer=object_schema(text=text(60)),
                action=action,
            )
            for kind, action in {
                "button": object_schema(
                    buttons={"type": "array", "items": REPLY, "minItems": 1, "maxItems": 3}
                ),
                "cta_url": LINK,
            }.items()
        ]
    },
    "template": object_schema(
        name=text(512),
        language=object_schema(code=text(10)),
        components={
            "type": "array",
            "maxItems": 1,
            "items": object_schema(
                type="body",
                parameters={"type": "array", "items": PARAMETER, "minItems": 3, "maxItems": 3},
            ),
        },
    ),
}


def problems_of(body: dict[str, Any]) -> list[str]:
    kind = body["type"]
    extra = {"context": CONTEXT} if "context" in body else {}
    person = {"to": {"pattern": "^[0-9]+$"}} if "to" in body else {"recipient": {"pattern": r"^[A-Z]{2}\."}}
    whole = object_schema(
        messaging_product="whatsapp",
        recipient_type="individual",
        type=kind,
        **person,
        **extra,
        **{kind: KINDS[kind]},
    )
    found = [error.message for error in Draft202012Validator(whole).iter_errors(body)]
    replies = [one["reply"] for one in body.get("interactive", {}).get("action", {}).get("buttons", [])]
    if len({reply["title"] for reply in replies}) != len(replies):
        found.append("button titles repeat")
    found += find_violations(body)
    return found + [f"formatted: {one}" for part in parts_of(body) for one in find_formatting(part)]


def parts_of(body: dict[str, Any]) -> list[str]:
    """Everything that a person reads."""
    if body["type"] == "text":
        return [body["text"]["body"]]
    if body["type"] == "template":
        return [one["text"] for one in body["template"]["components"][0]["parameters"]]
    message = body["interactive"]
    return [message["header"]["text"], message["body"]["text"], message["footer"]["text"]]


def find_formatting(text: str) -> list[str]:
    """What WhatsApp would format: pairs of signs around words, code, and quotes; never inside a link."""
    words = re.sub(r"^Open .*https?://.*$", "", text, flags=re.MULTILINE)
    found = re.findall(r"(?<![A-Za-z0-9])([*_~])(?=\S)(?:[^\n]*?\S)??\1(?![A-Za-z0-9])", words)
    return found + re.findall(r"`[^`]+`|```", words) + re.findall(r"^>", words, flags=re.MULTILINE)


class CloudApi:
    """What WhatsApp keeps: the messages that it took, in order."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self.numbers = count(1)
        self.is_open = True

    def handle(self, request: Request) -> Answer:
        if request.headers.get("Authorization") != f"Bearer {ACCESS_TOKEN}":
            return refusal(401, 190, "Error validating access token")
        if request.path != f"/v24.0/{PHONE_NUMBER_ID}/messages":
            return refusal(404, 100, "Unsupported post request")
        body = request.json
        self.problems += problems_of(body)
        if not self.is_open and body["type"] != "template":
            return refusal(400, 131047, "Re-engagement message")
        message_id = f"wamid.{next(self.numbers)}"
        self.messages[message_id] = body
        person = body.get("to") or body["recipient"]
        accepted = {
            "messaging_product": "whatsapp",
            "contacts": [{"input": person, "wa_id": person}],
            "messages": [{"id": message_id}],
        }
        return Answer(json=accepted)

    def replies_to(self, message_id: str) -> list[dict[str, Any]]:
        wanted = {"message_id": message_id}
        return [body for body in self.messages.values() if body.get("context") == wanted]


def refusal(status: int, code: int, message: str) -> Answer:
    data = {"messaging_product": "whatsapp", "details": f"{message}, see https://example.com/{ACCESS_TOKEN}"}
    error = {"message": f"(#{code}) {message}", "type": "OAuthException", "code": code, "error_data": data}
    return Answer(status=status, json={"error": {**error, "fbtrace_id": "x"}})


class WhatsAppHarness(InteractiveHarness):
    secrets = (ACCESS_TOKEN, APP_SECRET, VERIFY_TOKEN)
    via = "whatsapp_reply_button"
    can_edit = False

    def __init__(self, api: CloudApi, server: Loopback, channel: WhatsAppChannel) -> None:
        self.api = api
        self.server = server
        self.channel: WhatsAppChannel = channel

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(body) for body in self.api.messages.values()]

    def _shown(self, body: dict[str, Any]) -> VisibleMessage:
        text = "\n\n".join(parts_of(body)).translate(READ_AS)
        action = body.get("interactive", {}).get("action", {})
        replies = [one["reply"] for one in action.get("buttons", [])]
        written = re.findall(r"^Open [a-z ]+: (https?://\S+)", text, flags=re.MULTILINE)
        button = [action["parameters"]["url"]] if "parameters" in action else []
        return VisibleMessage(
            text=text,
            references=tuple(reply["id"] for reply in replies),
            labels=tuple(reply["title"] for reply in replies),
            links=(*button, *written),
            problems=tuple(self.api.problems),
        )

    def refuse_next(self) -> None:
        self.server.planned.append(refusal(400, 131026, "Message undeliverable"))

    def slow_down_next(self) -> None:
        self.server.planned.append(refusal(429, 130429, "Rate limit hit"))

    def fail_next(self) -> None:
        self.server.planned.append(refusal(500, 131000, "Something went wrong"))

    def press(self, ticket: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        return sign_request(
            build_notification(
                contacts=[{"profile": {"name": name}, "wa_id": user_id}],
                messages=[self.reply(ticket.message_id, reference, user_id)],
            )
        )

    def reply(self, message_id: str, reference: str, user_id: str = TO) -> dict[str, Any]:
        return {
            "context": {"from": "15550783881", "id": message_id},
            "from": user_id,
            "id": f"wamid.in{next(self.api.numbers)}",
            "timestamp": "1763200000",
            "type": "interactive",
            "interactive": {"type": "button_reply", "button_reply": {"id": reference, "title": "Approve"}},
        }

    def forgeries(self, call: WebhookRequest) -> Sequence[WebhookRequest]:
        genuine = call.headers["x-hub-signature-256"]
        other = signature(call.body, "another secret")
        signatures = [
            "",
            "sha256=",
            genuine[7:],
            genuine.upper(),
            genuine[:-1],
            f"{genuine}0",
            other,
            "\udcff",
        ]
        sha1 = hmac.new(APP_SECRET.encode(), call.body, hashlib.sha1).hexdigest()
        altered = call.body.replace(b"h1.", b"h2.")
        return [
            WebhookRequest(method="POST", headers={}, body=call.body),
            WebhookRequest(method="POST", headers={"x-hub-signature": f"sha1={sha1}"}, body=call.body),
            *(
                WebhookRequest(method="POST", headers={"x-hub-signature-256": one}, body=call.body)
                for one in signatures
            ),
            WebhookRequest(method="POST", headers=call.headers, body=altered),
            WebhookRequest(method="POST", headers=call.headers, body=call.body + b" "),
            WebhookRequest(method="PUT", headers={}, body=call.body),
            build_challenge_request(**{"hub.verify_token": "guessed"}),
            build_challenge_request(**{"hub.verify_token": ""}),
            build_challenge_request(**{"hub.mode": "unsubscribe"}),
            build_challenge_request(**{"hub.challenge": "<script>"}),
        ]

    def noise(self) -> Sequence[WebhookRequest]:
        reply = self.reply("wamid.1", "h1.yes")
        return [
            build_challenge_request(),
            sign_request(build_notification(messages=[{**reply, "type": "text", "text": {"body": "hi"}}])),
            sign_request(build_notification(messages=[{**reply, "interactive": {"type": "list_reply"}}])),
            sign_request(build_notification(messages=[{**reply, "from": ""}])),
            sign_request(
                build_notification(messages=[self.reply("wamid.1", "x" * 257), "strange", {"id": 1}])
            ),
            sign_request(build_notification(messages=[reply], phone_number_id="1")),
            sign_request(build_notification(statuses=[{"id": "wamid.1", "status": "sent"}, {"id": []}])),
            sign_request({"object": "page", "entry": [{"changes": []}]}),
            sign_request(
                {"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "calls"}]}]}
            ),
            sign_request([]),
            WebhookRequest(
                method="POST", headers={"x-hub-signature-256": signature(b"\xff{")}, body=b"\xff{"
            ),
        ]

    def list_replies(self) -> Sequence[str]:
        answered = [body for body in self.api.messages.values() if "wamid.in" in str(body.get("context", ""))]
        return ["\n".join(parts_of(body)) for body in answered]


def build_notification(*, phone_number_id: str = PHONE_NUMBER_ID, **value: Any) -> dict[str, Any]:
    metadata = {"display_phone_number": "15550783881", "phone_number_id": phone_number_id}
    whole = {"messaging_product": "whatsapp", "metadata": metadata, **value}
    changes = [{"value": whole, "field": "messages"}]
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": changes}]}


def build_failure_request(message_id: str, code: int = 131047) -> WebhookRequest:
    errors = [{"code": code, "title": "Re-engagement message", "message": "Re-engagement message"}]
    status = {"id": message_id, "status": "failed", "timestamp": "1", "recipient_id": TO, "errors": errors}
    return sign_request(build_notification(statuses=[status]))


def sign_request(body: Any) -> WebhookRequest:
    raw = msgspec.json.encode(body)
    return WebhookRequest(method="POST", headers={"x-hub-signature-256": signature(raw)}, body=raw)


def signature(raw: bytes, secret: str = APP_SECRET) -> str:
    return f"sha256={hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()}"


def build_challenge_request(**changes: str) -> WebhookRequest:
    query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "1158201444"}
    return WebhookRequest(method="GET", headers={}, body=b"", query={**query, **changes})
