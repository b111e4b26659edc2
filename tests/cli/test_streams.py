"""Standard streams that are closed, full or not Unicode."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.asking import Desk
from tests.cli.process import COMMAND, environment, placet
from tests.cli.strange_service import StrangeService, strange_service
from tests.waiting import PATIENCE_S


def run_in_shell(desk: Desk, line: str) -> subprocess.CompletedProcess[str]:
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
def decided_service() -> Iterator[StrangeService]:
    """A service whose person has confirmed."""
    with strange_service() as service:
        service.asks()
        service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
        yield service


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_decision_counts_whichever_streams_are_closed(
    desk: Desk, decided_service: StrangeService, closed: str
) -> None:
    run = run_in_shell(desk, f'"$A" request POST {decided_service.url}/act --via print {closed}')
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr


def test_terminal_channel_without_a_terminal_is_an_error(desk: Desk) -> None:
    run = run_in_shell(desk, '"$A" ask approval "Send it?" --via terminal <&-')
    assert run.returncode == 1
    assert "Standard error is not a terminal" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("flag", ["", "--json"])
def test_decision_is_not_lost_when_the_disk_is_full(
    desk: Desk, decided_service: StrangeService, flag: str
) -> None:
    run = run_in_shell(desk, f'"$A" request POST {decided_service.url}/act {flag} > /dev/full')
    assert run.returncode == 1
    assert run.stderr.endswith(
        "placet: The outcome cannot be written: No space left on device.\n"
        f"Read it again with: placet wait {decided_service.url}/poll\n"
    )


@pytest.mark.parametrize("command", ["settings", "skill", "key list --db cases.db"])
def test_full_disk_is_reported_in_one_sentence(desk: Desk, command: str) -> None:
    placet(desk.folder, "key", "create", "someone", "--db", "cases.db")
    run = run_in_shell(desk, f'"$A" {command} > /dev/full')
    assert (run.returncode, run.stderr) == (
        1,
        "placet: The output cannot be written: No space left on device.\n",
    )


def test_characters_outside_the_terminals_encoding_are_escaped(tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": "latin-1"}
    placet(tmp_path, "key", "create", "Sales 日本", "--db", "cases.db")
    run = placet(tmp_path, "key", "list", "--db", "cases.db", env=env)
    assert run.returncode == 0, run.stderr
    assert "\\u65e5\\u672c" in run.stdout
