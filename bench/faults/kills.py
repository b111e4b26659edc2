"""Lives of a server: it starts, is audited, works under load, and is killed in the middle of it."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta

import aiohttp
from msgspec import Struct

from bench.faults.auditor import Auditor, Findings, is_sound
from bench.faults.clients import Crowd
from bench.faults.ledger import Ledger, Promise
from bench.faults.victim import Victim
from placet.desk import clock

LIFE_WITHIN_S = 60.0
POLLED = 20
SHORT = timedelta(minutes=5)
DURING_START = 0.1  # how often a life ends before it has begun to serve
Say = Callable[[str], None]


class Casualties(Struct, kw_only=True):
    """What a run of kills came to."""

    kills: int
    kills_during_start: int
    ledger: Ledger
    findings: Findings


class Killing:
    """Kills a server so many times while clients open and answer so many cases."""

    def __init__(self, victim: Victim, http: aiohttp.ClientSession, key: str, dice: random.Random) -> None:
        self._victim = victim
        self._http = http
        self._key = key
        self._dice = dice
        self._ledger = Ledger()
        self._auditor = Auditor(victim, self._ledger, dice)
        self._early = 0

    async def run(self, *, kills: int, cases: int, say: Say) -> Casualties:
        """Returns with the server up; the findings name every violation."""
        done = 0
        await self._victim.start()
        while done < kills or len(self._ledger.promises) < cases:
            each = max(10, int(cases / kills * self._dice.uniform(0.7, 1.5)))
            await self._life(each)
            done += 1
            if done % max(1, kills // 10) == 0:
                say(self._progress(done))
        await self._last_audit()
        return Casualties(
            kills=done,
            kills_during_start=self._early,
            ledger=self._ledger,
            findings=self._auditor.findings,
        )

    async def _life(self, cases: int) -> None:
        crowd = Crowd(
            self._http, self._victim.url, self._key, ledger=self._ledger, dice=self._dice, target=cases
        )
        work = asyncio.create_task(crowd.work())
        try:
            await asyncio.wait_for(crowd.busy.wait(), LIFE_WITHIN_S)
            await asyncio.sleep(self._dice.uniform(0, 0.03))
        finally:
            self._victim.kill()
            await asyncio.wait([work], timeout=LIFE_WITHIN_S)
        work.result()
        await self._next_life()
        await self._auditor.after_start(crowd.opened)
        await self._poll(crowd.opened)
        await crowd.ask_again()
        await self._auditor.after_start(crowd.opened)

    async def _next_life(self) -> None:
        if self._dice.random() < DURING_START:
            self._victim.launch()
            await asyncio.sleep(self._dice.uniform(0.1, 1.0))
            self._victim.kill()
            self._early += 1
        await self._victim.start()

    async def _poll(self, opened: list[Promise]) -> None:
        """The server itself tells the same as its file."""
        answered = [one for one in opened if one.taken is not None]
        for promise in self._dice.sample(answered, min(POLLED, len(answered))):
            headers = {"Authorization": f"Bearer {self._key}"}
            async with self._http.get(promise.poll_url, headers=headers) as reply:
                poll = await reply.json()
            told = poll.get("result") or {}
            if promise.taken and (told.get("action"), told.get("data")) != (
                promise.taken.action,
                promise.taken.data,
            ):
                self._ledger.surprises.append(f"{promise.case_id}: the poll tells of another answer: {poll}")

    async def _last_audit(self) -> None:
        soon = [
            one.expires_at for one in self._ledger.promises.values() if one.expires_at < clock.now() + SHORT
        ]
        if soon:
            await asyncio.sleep(max(0.0, (max(soon) - clock.now()).total_seconds()))
        await self._auditor.at_the_end()
        if not is_sound(self._victim.db):
            self._auditor.findings.violations.append("SQLite finds the file damaged")
        self._auditor.findings.violations.extend(self._ledger.surprises)

    def _progress(self, done: int) -> str:
        wrong = len(self._auditor.findings.violations) + len(self._ledger.surprises)
        return (
            f"  {done} kills, {len(self._ledger.promises):,} cases, {self._ledger.answers:,} answers, "
            f"{wrong} violations"
        )
