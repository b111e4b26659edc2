"""Clients that open cases and answer them as fast as they can, and write down what they were told."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import aiohttp
from msgspec import Struct

from bench.drafts import ANSWER, DRAFT
from bench.faults.ledger import AcknowledgedAnswer, Ledger, Promise
from placet.desk import clock, random_values

CLIENTS = 16
TIMEOUTS = ("1s", "2s", "4s", "1h", "1h", "1h", "1h", "1h", "1h", "1h")
BROKEN = (aiohttp.ClientError, OSError, TimeoutError)
Again = Callable[[], Awaitable[None]]


class Reply(Struct, frozen=True, kw_only=True):
    """A whole reply; one that broke off is none."""

    status: int
    body: dict[str, Any]


class Crowd:
    """Sixteen clients with one key. What breaks off and carries an Idempotency-Key is asked again later."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        key: str,
        *,
        ledger: Ledger,
        dice: random.Random,
        target: int,
    ) -> None:
        self._http = http
        self._url = url
        self._key = key
        self._ledger = ledger
        self._dice = dice
        self._again: list[Again] = []
        self._target = target
        self.opened: list[Promise] = []
        self.busy = asyncio.Event()
        """Set once so many cases as were aimed for have been opened."""

    async def work(self) -> None:
        """Open and answer until the server goes away or this is cancelled."""
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def ask_again(self) -> None:
        """Repeat what broke off, to the server's next life: by then each has happened once or not at all."""
        repeats, self._again = self._again, []
        for repeat in repeats:
            await repeat()

    async def _client(self) -> None:
        while await self._open_and_answer():
            pass

    async def _open_and_answer(self) -> bool:
        repeat_key = random_values.generate_short_id() if self._dice.random() < 0.5 else None
        promise = await self._open({**DRAFT, "timeout": self._dice.choice(TIMEOUTS)}, repeat_key)
        if promise is None:
            return False
        if self._dice.random() < 0.75:
            return await self._answer(promise)
        return True

    async def _open(self, draft: dict[str, Any], repeat_key: str | None) -> Promise | None:
        reply = await self._post(f"{self._url}/v1/cases", draft, self._key, repeat_key)
        if reply is None:
            self._ledger.unsure_openings += 1
            if repeat_key is not None:
                self._again.append(lambda: self._open_again(draft, repeat_key))
            return None
        if reply.status != 202:
            self._ledger.surprises.append(f"opening a case was answered with {reply.status}: {reply.body}")
            return None
        promise = self._ledger.opened(reply.body["hitl"])
        self.opened.append(promise)
        if len(self.opened) >= self._target:
            self.busy.set()
        return promise

    async def _open_again(self, draft: dict[str, Any], repeat_key: str) -> None:
        promise = await self._open(draft, repeat_key)
        again = await self._open(draft, repeat_key)
        if promise is None or again is not promise:
            self._ledger.surprises.append(f"Idempotency-Key {repeat_key} did not lead to one case")

    async def _answer(self, promise: Promise) -> bool:
        action = self._dice.choice(("approve", "reject"))
        answer = AcknowledgedAnswer(
            action=action, data={"feedback": f"{action} {random_values.generate_short_id()}"}
        )
        repeat_key = random_values.generate_short_id() if self._dice.random() < 0.5 else None
        return await self._send_answer(promise, answer, repeat_key)

    async def _send_answer(
        self, promise: Promise, answer: AcknowledgedAnswer, repeat_key: str | None
    ) -> bool:
        body = {**ANSWER, "action": answer.action, "data": answer.data}
        reply = await self._post(promise.submit_url, body, promise.submit_token, repeat_key)
        if reply is None:
            self._ledger.unsure_answers += 1
            promise.unsure.append(answer)
            if repeat_key is not None:
                self._again.append(lambda: self._answer_again(promise, answer, repeat_key))
            return False
        if reply.status == 200:
            at = datetime.fromisoformat(reply.body["completed_at"])
            self._ledger.answered(
                promise, AcknowledgedAnswer(action=answer.action, data=answer.data, completed_at=at)
            )
        else:
            self._ledger.refused(promise, reply.status, now=clock.now())
        return True

    async def _answer_again(self, promise: Promise, answer: AcknowledgedAnswer, repeat_key: str) -> None:
        for _ in range(2):
            await self._send_answer(promise, answer, repeat_key)

    async def _post(self, url: str, body: dict[str, Any], token: str, repeat_key: str | None) -> Reply | None:
        headers = {"Authorization": f"Bearer {token}"}
        if repeat_key is not None:
            headers["Idempotency-Key"] = repeat_key
        try:
            async with self._http.post(url, json=body, headers=headers) as reply:
                return Reply(status=reply.status, body=await reply.json())
        except BROKEN:
            return None
