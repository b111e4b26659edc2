"""Telegram's Bot API on the loopback address, its requests checked with aiogram's types and our own table.

aiogram takes seconds to import. So only what needs it imports it, and before the first request: a client
waits ten seconds for an answer.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
import pydantic

from placet.channels.telegram import TelegramChannel
from placet.ports.channel import SentMessage, WebhookRequest
from placet.testing.platforms import InteractiveHarness, VisibleMessage
from tests.channels.loopback import Answer, Loopback, Request
from tests.channels.telegram import documented_limits

TOKEN = "123456:AAb-secret_of-the_bot"
SECRET = "webhook-secret_1"
CHAT = 4242
METHODS = {
    "sendMessage": "SendMessage",
    "editMessageText": "EditMessageText",
    "answerCallbackQuery": "AnswerCallbackQuery",
    "getUpdates": "GetUpdates",
}


class BotApi:
    """What Telegram keeps: messages by id, notices, and updates until they are confirmed."""

    def __init__(self) -> None:
        from aiogram import methods, types  # noqa: F401

        self.messages: dict[int, dict[str, Any]] = {}
        self.notices: list[str] = []
        self.updates: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.numbers = count(1)
        self.news = asyncio.Event()

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        prefix, _, method = request.path.rpartition("/")
        if prefix != f"/bot{TOKEN}":
            return refusal(401, "Unauthorized")
        body = request.json
        self.problems += problems_of(method, body)
        answer: Answer | Awaitable[Answer] = getattr(self, f"on_{method}")(body)
        return answer

    def on_sendMessage(self, body: dict[str, Any]) -> Answer:
        number = next(self.numbers)
        self.messages[number] = body
        return Answer(json={"ok": True, "result": message(number, body)})

    def on_editMessageText(self, body: dict[str, Any]) -> Answer:
        number = body["message_id"]
        if number not in self.messages:
            return refusal(400, "Bad Request: message to edit not found")
        changed = {**body, "chat_id": self.messages[number]["chat_id"]}
        before = {**self.messages[number], "message_id": number}
        if changed == before:
            return refusal(400, "Bad Request: message is not modified: specified new message content and …")
        self.messages[number] = body
        return Answer(json={"ok": True, "result": message(number, body)})

    def on_answerCallbackQuery(self, body: dict[str, Any]) -> Answer:
        self.notices.append(body["text"])
        return Answer(json={"ok": True, "result": True})

    async def on_getUpdates(self, body: dict[str, Any]) -> Answer:
        offset = body.get("offset", 0)
        self.updates = [update for update in self.updates if update["update_id"] >= offset]
        if not self.updates:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), body["timeout"])
        self.news.clear()
        return Answer(json={"ok": True, "result": self.updates[: body.get("limit", 100)]})

    def deliver(self, update: dict[str, Any]) -> None:
        """Return this update to the next request."""
        self.updates.append(update)
        self.news.set()

    def press(self, message_id: int, data: str, *, user_id: int = 7, name: str = "Ada") -> dict[str, Any]:
        """The update for a press, as Telegram's own types have it."""
        from aiogram import types

        number = next(self.numbers)
        query = types.CallbackQuery(
            id=f"query-{number}",
            from_user=types.User(id=user_id, is_bot=False, first_name=name),
            chat_instance="1",
            message=types.Message(
                message_id=message_id,
                date=datetime(2026, 11, 15, tzinfo=UTC),
                chat=types.Chat(id=CHAT, type="private"),
            ),
            data=data,
        )
        update = types.Update(update_id=number, callback_query=query)
        return update.model_dump(mode="json", by_alias=True, exclude_none=True)


def refusal(status: int, description: str, **parameters: Any) -> Answer:
    body = {"ok": False, "error_code": status, "description": description}
    return Answer(status=status, json={**body, **({"parameters": parameters} if parameters else {})})


def message(number: int, body: dict[str, Any]) -> dict[str, Any]:
    chat = {"id": CHAT, "type": "private"}
    return {"message_id": number, "date": 1, "chat": chat, "text": documented_limits.read_text(body["text"])}


def problems_of(method: str, body: dict[str, Any]) -> list[str]:
    """What another project's models, and our own table, find wrong in a request."""
    from aiogram import methods, types

    model: type[pydantic.BaseModel] = getattr(methods, METHODS[method])
    try:
        read = model.model_validate(body)
    except pydantic.ValidationError as error:
        return [str(error)]
    found = [f"{method} has no {name}" for name in read.model_extra or {}]
    known = types.InlineKeyboardButton.model_fields
    buttons = [button for row in body.get("reply_markup", {}).get("inline_keyboard", []) for button in row]
    found += [f"no button has {name}" for button in buttons for name in button if name not in known]
    if method in ("sendMessage", "editMessageText"):
        found += documented_limits.find_violations(body)
        if body["link_preview_options"] != {"is_disabled": True}:
            found.append("a preview is fetched")
    return found


class TelegramHarness(InteractiveHarness):
    secrets = (TOKEN, TOKEN.partition(":")[2], SECRET)
    via = "telegram_inline_button"

    def __init__(self, api: BotApi, server: Loopback, channel: TelegramChannel) -> None:
        self.api = api
        self.server = server
        self.channel = channel

    def list_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(body) for body in self.api.messages.values()]

    def _shown(self, body: dict[str, Any]) -> VisibleMessage:
        rows = body["reply_markup"]["inline_keyboard"]
        buttons = [button for row in rows for button in row]
        text = documented_limits.read_text(body["text"])
        written = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Open ")]
        return VisibleMessage(
            text=text,
            references=tuple(one["callback_data"] for one in buttons if "callback_data" in one),
            labels=tuple(one["text"] for one in buttons if "callback_data" in one),
            links=(
                *(one["url"] for one in buttons if "url" in one),
                *(word for word in written if word.startswith("http")),
            ),
            problems=tuple(self.api.problems),
        )

    def refuse_next(self) -> None:
        self.server.planned.append(refusal(403, "Forbidden: bot was blocked by the user"))

    def slow_down_next(self) -> None:
        self.server.planned.append(refusal(429, "Too Many Requests: retry after 3", retry_after=3))

    def fail_next(self) -> None:
        self.server.planned.append(Answer(status=502, body=b"<html>Bad Gateway</html>"))

    def press(self, ticket: SentMessage, reference: str, *, user_id: str, name: str) -> WebhookRequest:
        update = self.api.press(int(ticket.message_id), reference, user_id=int(user_id), name=name)
        return sign_update(update)

    def forgeries(self, call: WebhookRequest) -> Sequence[WebhookRequest]:
        headers = [
            {},
            {"x-telegram-bot-api-secret-token": ""},
            {"x-telegram-bot-api-secret-token": "guessed"},
            {"x-telegram-bot-api-secret-token": SECRET + "x"},
            {"x-telegram-bot-api-secret-token": SECRET.upper()},
            {"x-telegram-bot-api-secret-token": "\udcff"},
            {"authorization": SECRET},
        ]
        return [WebhookRequest(method="POST", headers=one, body=call.body) for one in headers]

    def noise(self) -> Sequence[WebhookRequest]:
        user = {"id": 7, "is_bot": False, "first_name": "Ada"}
        bot = {**user, "is_bot": True}
        return [
            sign_update({"update_id": 1, "message": {"message_id": 1, "text": "/start", "from": user}}),
            sign_update({"update_id": 2, "something_new": {"id": 1}}),
            sign_update(
                {"update_id": 3, "callback_query": {"id": "1", "from": user, "game_short_name": "g"}}
            ),
            sign_update({"update_id": 4, "callback_query": {"id": "1", "from": bot, "data": "x"}}),
            sign_update({"update_id": 5, "callback_query": {"id": "1", "from": user, "data": "x" * 65}}),
            sign_update({"update_id": "6", "callback_query": []}),
            sign_update([]),
            WebhookRequest(method="POST", headers={"x-telegram-bot-api-secret-token": SECRET}, body=b"\xff{"),
        ]

    def list_replies(self) -> Sequence[str]:
        return self.api.notices


def sign_update(update: Any) -> WebhookRequest:
    return WebhookRequest(
        method="POST",
        headers={"x-telegram-bot-api-secret-token": SECRET},
        body=msgspec.json.encode(update),
    )
