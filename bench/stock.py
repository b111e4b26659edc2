"""Fills a database with cases, in a process of its own: half of them open, half of them answered."""

import argparse
import asyncio
import random
import secrets
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bench.drafts import ANSWER, DRAFT
from bench.quotas import OUT_OF_REACH
from placet.bootstrap.server import ServerParts, build
from placet.cases.case import NO_EVENT, Case, Decision, Offer, compute_offer_digest
from placet.cases.commands import Respond
from placet.cases.deadlines import get_due_at
from placet.cases.events import Event
from placet.cases.machine import apply, begin
from placet.cases.tokens import digest_token
from placet.desk import clock, random_values
from placet.desk.api_keys import create_key
from placet.desk.draft import draft_from
from placet.ports.case_store import CaseCreation
from placet.ports.identity import Principal
from placet.protocol.inline_submit import SubmitRequest
from placet.settings import Settings

OWNER = "bench"
CHUNK = 2_000
LONG_AGO = timedelta(days=5)  # how far the stored cases go back
OPEN_FOR = timedelta(days=7)
WINDOW = 1_000  # people answer what was asked lately, in about the order it was asked
FILL_WITHIN_S = 1800


class OpenCase(Struct, frozen=True):
    """An open case and the token that answers it."""

    case_id: str
    submit_token: str


class Stock(Struct, frozen=True, kw_only=True):
    """What a database was filled with, as far as the bench has to know."""

    key: str
    cases: int
    seconds: float
    open_cases: list[OpenCase]


def fill(db: Path, *, cases: int, known: int, seed: int = 1, all_open: bool = False) -> Stock:
    """Add so many cases to a database; of up to `known` open ones, chosen at random, the tokens are told."""
    command = [sys.executable, "-m", "bench.stock", str(db), str(cases), str(known), "--seed", str(seed)]
    told = subprocess.run(
        [*command, *(["--all-open"] if all_open else [])],
        stdout=subprocess.PIPE,
        check=True,
        timeout=FILL_WITHIN_S,
    )
    return msgspec.json.decode(told.stdout, type=Stock)


class CaseFactory:
    """Makes cases after one that the desk itself opened and one that it closed."""

    def __init__(self, sample: Case, offer: Offer, decision: Decision, created: Event) -> None:
        self._sample = replace(sample, version=0, chain=NO_EVENT)
        self._offer = offer
        self._decision = decision
        self._created: dict[str, Any] = msgspec.json.decode(created.data or b"")

    def create_open(self, submit_token: str, *, at: datetime) -> CaseCreation:
        """A case opened at this moment that waits for an answer under this token."""
        case_id = random_values.generate_case_id(at)
        case = replace(
            self._sample,
            id=case_id,
            created_at=at,
            expires_at=at + OPEN_FOR,
            offer_digest=compute_offer_digest(case_id, self._offer),
            review_digests=(secrets.token_hex(32),),
            submit_digest=digest_token(submit_token),
        )
        created = {**self._created, "case_id": case_id, "offer_digest": case.offer_digest}
        filed, event = begin(case, created, actor=f"key:{case.owner}", salt=random_values.generate_salt())
        return self._build_creation(filed, (event,))

    def create_closed(self, owner: str, *, at: datetime, answered_at: datetime) -> CaseCreation:
        """A case opened at this moment and answered at that."""
        creation = self.create_open("", at=at)
        case = replace(creation.case, owner=owner)
        command = Respond(actor="inline:telegram", decision=self._decision)
        step = apply(case, command, now=answered_at, salt=random_values.generate_salt())
        return self._build_creation(step.case, (*creation.events, *step.events))

    def _build_creation(self, case: Case, events: tuple[Event, ...]) -> CaseCreation:
        due = get_due_at(case, keep_for=timedelta(days=30))
        return CaseCreation(case=case, offer=self._offer, events=events, due_at=due)


async def create_case_factory(parts: ServerParts) -> CaseFactory:
    """From two cases taken through the desk."""
    principal = Principal(name=OWNER, scopes=frozenset({"admin"}))
    opened = [await parts.desk.open(draft_from(DRAFT), principal) for _ in range(2)]
    token = msgspec.json.decode(opened[0].body)["hitl"]["submit_token"]
    await parts.desk.submit_inline(opened[0].case_id, token, msgspec.convert(ANSWER, SubmitRequest))
    answered = await parts.desk.get_owned_case(opened[0].case_id, principal)
    sample, offer = await parts.desk.get_case_and_offer(opened[1].case_id)
    (created,) = await parts.desk.list_events(sample.id)
    assert answered.decision is not None
    return CaseFactory(sample, offer, answered.decision, created)


async def fill_database(db: str, *, cases: int, known: int, seed: int, all_open: bool) -> Stock:
    """Fill the database through the store's own port."""
    began, began_at = time.monotonic(), clock.now() - LONG_AGO
    parts = await build(Settings(db=db, **OUT_OF_REACH))
    key = await create_key(parts.store, OWNER, now=clock.now())
    form, dice = await create_case_factory(parts), random.Random(seed)
    told = set(range(0, cases, 1 if all_open else 2))
    if known < len(told):
        told = set(dice.sample(sorted(told), known))
    open_cases: list[OpenCase] = []

    def build_creation(number: int) -> CaseCreation:
        at = clock.now() if all_open else began_at + LONG_AGO * (number / cases)
        if number % 2 and not all_open:
            answered_at = at + timedelta(hours=dice.random())
            return form.create_closed(f"service-{number % 50}", at=at, answered_at=answered_at)
        token = random_values.generate_token() if number in told else ""
        made = form.create_open(token, at=at)
        if token:
            open_cases.append(OpenCase(made.case.id, token))
        return made

    for first in range(0, cases, CHUNK):
        chunk = range(first, min(first + CHUNK, cases))
        await asyncio.gather(*(parts.store.create_case(build_creation(number)) for number in chunk))
    await parts.stop()
    shuffle_in_windows(open_cases, dice, within=len(open_cases) if not all_open else WINDOW)
    return Stock(key=key, cases=cases, seconds=time.monotonic() - began, open_cases=open_cases)


def shuffle_in_windows(cases: list[OpenCase], dice: random.Random, *, within: int) -> None:
    """Shuffle in place, each window by itself."""
    for first in range(0, len(cases), within):
        window = cases[first : first + within]
        dice.shuffle(window)
        cases[first : first + within] = window


def main() -> None:
    """Fill, and tell on standard output what was filled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("db")
    parser.add_argument("cases", type=int)
    parser.add_argument("known", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all-open", action="store_true")
    options = parser.parse_args()
    made = fill_database(
        options.db, cases=options.cases, known=options.known, seed=options.seed, all_open=options.all_open
    )
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(made)))


if __name__ == "__main__":
    main()
