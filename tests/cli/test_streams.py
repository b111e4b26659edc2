"""Where a command reads and writes may be closed, full, or older than Unicode."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.asking import Desk
from tests.cli.process import COMMAND, environment, placet
from tests.cli.strange_service import StrangeService, strange_service
from tests.waiting import PATIENCE_S


def in_shell(desk: Desk, line: str) -> subprocess.CompletedProcess[str]:
    """`$A` with redirections, as a script has them."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=desk.folder,
        env=environment({**desk.env, "A": COMMAND, "PYTHONUNBUFFERED": ""}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )


@pytest.fixture
def decided() -> Iterator[StrangeService]:
    """A service whose person has confirmed."""
    with strange_service() as service:
        service.asks()
        service.stands(status="completed", result={"action": "confirm", "data": {}})
        yield service


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_decision_counts_whichever_streams_are_closed(
    desk: Desk, decided: StrangeService, closed: str
) -> None:
    run = in_shell(desk, f'"$A" request POST {decided.url}/act --via print {closed}')
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr


def test_a_terminal_that_is_no_more_is_told_as_what_it_is(desk: Desk) -> None:
    run = in_shell(desk, '"$A" ask approval "Send it?" --via terminal <&-')
    assert run.returncode == 1
    assert "Standard error is not a terminal" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("flag", ["", "--json"])
def test_a_decision_that_no_disk_takes_is_not_lost(desk: Desk, decided: StrangeService, flag: str) -> None:
    run = in_shell(desk, f'"$A" request POST {decided.url}/act {flag} > /dev/full')
    assert run.returncode == 1
    assert run.stderr.endswith(
        "placet: The outcome cannot be written: No space left on device.\n"
        f"Read it again with: placet wait {decided.url}/poll\n"
    )


@pytest.mark.parametrize("command", ["settings", "skill", "key list --db cases.db"])
def test_output_that_no_disk_takes_is_one_sentence(desk: Desk, command: str) -> None:
    placet(desk.folder, "key", "create", "someone", "--db", "cases.db")
    run = in_shell(desk, f'"$A" {command} > /dev/full')
    assert (run.returncode, run.stderr) == (
        1,
        "placet: The output cannot be written: No space left on device.\n",
    )


def test_letters_that_the_terminal_lacks_are_written_by_their_numbers(tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": "latin-1"}
    placet(tmp_path, "key", "create", "Sales 日本", "--db", "cases.db")
    run = placet(tmp_path, "key", "list", "--db", "cases.db", env=env)
    assert run.returncode == 0, run.stderr
    assert "\\u65e5\\u672c" in run.stdout
