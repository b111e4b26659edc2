"""Sixty-four answers to one case at the same moment: one is taken, and everyone else hears that it was."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp
from msgspec import Struct

from bench.drafts import ANSWER, DRAFT

RACERS = 64
Say = Callable[[str], None]


class Races(Struct, kw_only=True):
    """What all rounds came to: how often each status was answered, and which rounds went wrong."""

    rounds: int = 0
    statuses: dict[int, int] = {}
    violations: list[str] = []


class Racing:
    """Runs rounds against one server."""

    def __init__(self, http: aiohttp.ClientSession, url: str, key: str) -> None:
        self._http = http
        self._url = url
        self._key = key

    async def run(self, rounds: int, say: Say) -> Races:
        """One round after the other, each on a case of its own."""
        races = Races(rounds=rounds)
        for number in range(1, rounds + 1):
            await self._round(races)
            if number % max(1, rounds // 5) == 0:
                say(f"  {number} races, {len(races.violations)} violations")
        return races

    async def _round(self, races: Races) -> None:
        hitl = await self._open()
        answers = [_answer(number) for number in range(RACERS)]
        statuses = await asyncio.gather(*(self._submit(hitl, answer) for answer in answers))
        for status in statuses:
            races.statuses[status] = races.statuses.get(status, 0) + 1
        if Counter(statuses) != {200: 1, 409: RACERS - 1}:
            races.violations.append(f"{hitl['case_id']}: answered with {dict(Counter(statuses))}")
            return
        won = answers[statuses.index(200)]
        result = (await self._poll(hitl))["result"]
        if (result["action"], result["data"]) != (won["action"], won["data"]):
            races.violations.append(f"{hitl['case_id']}: {won} was acknowledged and {result} is stored")

    async def _open(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}"}
        async with self._http.post(f"{self._url}/v1/cases", json=DRAFT, headers=headers) as reply:
            opened: dict[str, Any] = (await reply.json())["hitl"]
            return opened

    async def _submit(self, hitl: dict[str, Any], answer: dict[str, Any]) -> int:
        headers = {"Authorization": f"Bearer {hitl['submit_token']}"}
        async with self._http.post(hitl["submit_url"], json=answer, headers=headers) as reply:
            await reply.read()
            return reply.status

    async def _poll(self, hitl: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}"}
        async with self._http.get(hitl["poll_url"], headers=headers) as reply:
            poll: dict[str, Any] = await reply.json()
            return poll


def _answer(number: int) -> dict[str, Any]:
    action = "approve" if number % 2 else "reject"
    return {**ANSWER, "action": action, "data": {"feedback": f"racer {number}"}}
