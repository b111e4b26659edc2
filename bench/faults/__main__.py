"""`python -m bench.faults`: kill the server under load and see what is left; fails on any violation."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from bench.faults.trial import run_trial, summary

RESULTS = Path(__file__).parent.parent / "results"


def main() -> None:
    """Run and leave with the verdict; a run that went wrong keeps its database."""
    parser = argparse.ArgumentParser(prog="bench.faults", description="Kill the server under load.")
    parser.add_argument("--kills", type=int, default=100, help="how often; default 100")
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases at least; default 20,000")
    parser.add_argument("--rounds", type=int, default=1_000, help="races of 64 answers; default 1,000")
    parser.add_argument("--seed", type=int, default=1, help="of the dice that choose moments and answers")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    # Beside the results and not among the system's temporary files, which may lie in memory.
    folder = Path(tempfile.mkdtemp(prefix="faults-", dir=RESULTS))
    trial = asyncio.run(
        run_trial(
            folder,
            kills=max(1, options.kills),
            cases=options.cases,
            rounds=options.rounds,
            seed=options.seed,
            say=say,
        )
    )
    print("\n" + summary(trial))
    if trial.violations:
        sys.exit(f"The database and the server's log are kept in {folder}")
    shutil.rmtree(folder)


def say(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
