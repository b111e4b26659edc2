"""A short run of `make faults`: the real server, killed twice under load, then raced."""

import asyncio
from pathlib import Path

import pytest

from bench.faults.trial import run_trial, summary


@pytest.mark.timeout(90)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    trial = asyncio.run(run_trial(tmp_path, kills=2, cases=300, rounds=5, seed=7, say=lambda line: None))
    assert trial.violations == [], summary(trial)
    assert trial.casualties.kills >= 2
    assert len(trial.casualties.ledger.promises) >= 300
    assert trial.casualties.ledger.answers > 100
    assert trial.races.statuses == {200: 5, 409: 5 * 63}
