"""The command line without a command: help, version and usage errors."""

import subprocess
from pathlib import Path

import click
import pytest
import yaml

from placet import __version__
from placet.cli.main import COMMANDS, cli
from tests.cli.process import COMMAND, environment, placet


def list_commands() -> list[tuple[str, ...]]:
    context = click.Context(cli)
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        found.append((name,))
        if isinstance(command, click.Group):
            found += [(name, inner) for inner in command.commands]
    return found


def find(path: tuple[str, ...]) -> click.Command:
    command: click.Command | None = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command


GROUPS = [path for path in list_commands() if isinstance(find(path), click.Group)]


def test_command_without_arguments_prints_the_first_steps(tmp_path: Path) -> None:
    run = placet(tmp_path)
    assert run.returncode == 2
    text = run.stdout + run.stderr
    assert "Try it with `placet demo`" in text
    assert all(f"  {name} " in text for name in COMMANDS)


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert placet(tmp_path, "--version").stdout == f"placet {__version__}\n"


@pytest.mark.parametrize("path", list_commands(), ids=" ".join)
def test_every_command_and_every_option_explains_itself(path: tuple[str, ...]) -> None:
    command = find(path)
    assert command.help
    assert command.help.strip().splitlines()[0].endswith(".")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name not in ("limit",):
            assert parameter.help, f"{path} {parameter.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_knows_where_each_command_is(name: str) -> None:
    assert find((name,)).name == name


def test_help_works_with_both_flags(tmp_path: Path) -> None:
    short, long = placet(tmp_path, "key", "create", "-h"), placet(tmp_path, "key", "create", "--help")
    assert short.stdout == long.stdout
    assert short.returncode == 0
    assert "print it to standard output" in short.stdout


def test_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    run = placet(tmp_path, "approve")
    assert run.returncode == 2
    assert "No such command 'approve'" in run.stderr


def test_mistyped_command_suggests_the_right_one(tmp_path: Path) -> None:
    assert "Did you mean 'serve'?" in placet(tmp_path, "serv").stderr
    assert "Did you mean 'approval'?" in placet(tmp_path, "ask", "aproval").stderr


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_overview_prints_each_commands_whole_first_sentence(path: tuple[str, ...], tmp_path: Path) -> None:
    group = find(path)
    assert isinstance(group, click.Group)
    shown = " ".join(placet(tmp_path, *path, "--help", env={"COLUMNS": "80"}).stdout.split())
    for command in group.commands.values():
        assert command.get_short_help_str(limit=1000).endswith(".")
        assert command.get_short_help_str(limit=1000) in shown


def test_closed_pipe_prints_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [COMMAND, "skill"],
        cwd=tmp_path,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""


def test_a_skill_has_front_matter_that_yaml_reads_and_tells_how_to_handle_a_202(tmp_path: Path) -> None:
    run = placet(
        tmp_path,
        *("skill", "--name", "parcel-desk", "--type", "approval", "--type", "x-refund"),
        *("--info", "Refunds are read by a person.", "--required", "--improvements"),
        env={"PLACET_BASE_URL": "https://placet.example"},
    )
    assert run.returncode == 0
    _, front, body = run.stdout.split("---\n", 2)
    hitl = yaml.safe_load(front)["metadata"]["hitl"]
    assert hitl["types"] == ["approval", "x-refund"]
    assert hitl["review_base_url"] == "https://placet.example/review"
    assert hitl["hitl_required"] is True
    assert "## HITL Handling" in body
    assert "## Agent Guidelines" in body
    assert "## Improvement Suggestions" in body


def test_a_skill_that_agents_could_not_use_is_refused(tmp_path: Path) -> None:
    run = placet(tmp_path, "skill", "--type", "vote")
    assert run.returncode == 1
    assert "types takes approval, selection" in run.stderr
