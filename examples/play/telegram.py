"""Telegram on this machine: as much of its Bot API as one bot in one chat needs, and people in the chat."""

import asyncio
from collections.abc import Callable
from html import unescape
from itertools import count
from threading import Condition
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from examples.stage import PATIENCE_S

CHAT = {"id": 4242, "type": "group"}
Body = dict[str, Any]


class Telegram:
    """`app` answers the bot; `press` and `until` are for those who read the chat."""

    def __init__(self, token: str) -> None:
        self.messages: dict[int, Body] = {}
        self.notices: list[str] = []
        self.heard = ""
        """Everything that the bot ever said to Telegram."""
        self._updates: list[Body] = []
        self._numbers = count(1)
        self._news = Condition()
        self._methods: dict[str, Callable[[Body], Any]] = {
            "sendMessage": self._send,
            "editMessageText": self._edit,
            "answerCallbackQuery": self._notice,
            "getUpdates": self._get_updates,
        }
        self.app = Starlette(routes=[Route(f"/bot{token}/{{method}}", self._call, methods=["POST"])])

    def press(self, label: str, *, user_id: int, name: str, times: int = 1) -> None:
        """Press the button of the newest message that says this; Telegram may deliver a press twice."""
        self.until(lambda: label in self.buttons)
        with self._news:
            query = {
                "id": f"query-{next(self._numbers)}",
                "from": {"id": user_id, "is_bot": False, "first_name": name},
                "message": {"message_id": max(self.messages), "date": 1, "chat": CHAT},
                "chat_instance": "1",
                "data": self.buttons[label],
            }
            for _ in range(times):
                self._updates.append({"update_id": next(self._numbers), "callback_query": query})
            self._news.notify_all()

    @property
    def text(self) -> str:
        """What the newest message says."""
        return unescape(self.messages[max(self.messages)]["text"]) if self.messages else ""

    @property
    def buttons(self) -> dict[str, str]:
        """The newest message's buttons that can be pressed, and what each carries."""
        return self._keyboard("callback_data")

    @property
    def links(self) -> dict[str, str]:
        """The newest message's buttons that open a page, and which."""
        return self._keyboard("url")

    def _keyboard(self, kind: str) -> dict[str, str]:
        newest = self.messages[max(self.messages)] if self.messages else {}
        rows = newest.get("reply_markup", {}).get("inline_keyboard", [])
        return {one["text"]: one[kind] for row in rows for one in row if kind in one}

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something to happen in the chat, but not forever."""
        with self._news:
            if not self._news.wait_for(happened, PATIENCE_S):
                raise TimeoutError("it did not happen in the chat")

    async def _call(self, request: Request) -> JSONResponse:
        method, body = self._methods[request.path_params["method"]], await request.json()
        self.heard += (await request.body()).decode()
        return JSONResponse({"ok": True, "result": await asyncio.to_thread(method, body)})

    def _send(self, body: Body) -> Body:
        return self._put(next(self._numbers), body)

    def _edit(self, body: Body) -> Body:
        return self._put(body["message_id"], body)

    def _put(self, number: int, body: Body) -> Body:
        with self._news:
            self.messages[number] = body
            self._news.notify_all()
        return {"message_id": number, "date": 1, "chat": CHAT, "text": body["text"]}

    def _notice(self, body: Body) -> bool:
        with self._news:
            self.notices.append(body["text"])
            self._news.notify_all()
        return True

    def _get_updates(self, body: Body) -> list[Body]:
        with self._news:
            self._updates = [one for one in self._updates if one["update_id"] >= body.get("offset", 0)]
            self._news.wait_for(lambda: bool(self._updates), body["timeout"])
            return list(self._updates)
