"""A whole run: kills, then races, then an orderly stop; and its summary."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
from msgspec import Struct

from bench.faults.kills import Casualties, Killing
from bench.faults.races import RACERS, Races, Racing
from bench.faults.victim import Victim
from bench.table import align_cells

SHOWN = 20
Say = Callable[[str], None]


class Trial(Struct, frozen=True, kw_only=True):
    """What a run came to."""

    casualties: Casualties
    races: Races
    exit_code: int

    @property
    def violations(self) -> list[str]:
        """Everything that was not as it must be."""
        stopped = [] if self.exit_code == 0 else [f"the server stopped with exit code {self.exit_code}"]
        return [*self.casualties.findings.violations, *self.races.violations, *stopped]


async def run_trial(folder: Path, *, kills: int, cases: int, rounds: int, seed: int, say: Say) -> Trial:
    """Kill a server `kills` times over `cases` cases, then race `rounds` times; leaves nothing running."""
    victim = Victim(folder / "faults.db")
    timeout = aiohttp.ClientTimeout(total=30)
    connector = aiohttp.TCPConnector(limit=RACERS)
    try:
        key = victim.make_key()
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            killing = Killing(victim, http, key, random.Random(seed))
            casualties = await killing.run(kills=kills, cases=cases, say=say)
            races = await Racing(http, victim.url, key).run(rounds, say)
        return Trial(casualties=casualties, races=races, exit_code=victim.stop())
    finally:
        victim.close()


def summary(trial: Trial) -> str:
    """The table that is printed at the end."""
    return "\n".join([*align_cells(list(_rows(trial))), "", *_verdict(trial.violations)]) + "\n"


def _rows(trial: Trial) -> Iterator[tuple[str, str]]:
    casualties, races = trial.casualties, trial.races
    ledger, findings = casualties.ledger, casualties.findings
    told = dict(sorted(races.statuses.items()))
    yield "killed under load", f"{casualties.kills:,}"
    yield "killed while starting", f"{casualties.kills_during_start:,}"
    yield "cases acknowledged", f"{len(ledger.promises):,}"
    yield "answers acknowledged", f"{ledger.answers:,}"
    yield "openings that broke off", f"{ledger.unsure_openings:,}"
    yield "of these stored all the same, unasked for again", f"{findings.strangers:,}"
    yield "answers that broke off", f"{ledger.unsure_answers:,}"
    yield "answers refused as late or second", f"{sum(ledger.refusals.values()):,}"
    yield "cases looked at, over and over", f"{findings.cases:,}"
    yield "events whose chain was verified", f"{findings.events:,}"
    yield "expired", f"{findings.expired:,}"
    yield "the latest of them, after its time or the start", f"{findings.latest_expiry_s:.2f} s"
    yield f"races of {RACERS} answers", f"{races.rounds:,}"
    yield "answers in races", ", ".join(f"{count:,} × {status}" for status, count in told.items())
    yield "violations", f"{len(trial.violations):,}"


def _verdict(violations: list[str]) -> Iterator[str]:
    if not violations:
        yield "Nothing acknowledged was lost, nothing happened twice, nothing is stuck."
        return
    yield from (f"  ! {one}" for one in violations[:SHOWN])
    if len(violations) > SHOWN:
        yield f"  … and {len(violations) - SHOWN} more"
