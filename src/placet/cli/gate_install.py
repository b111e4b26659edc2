"""`placet gate install` and `uninstall`: add and remove the hook of a coding agent."""

import difflib
import hashlib
import math
import os
import shlex
import sys
import tempfile
from pathlib import Path, PurePosixPath

import click
import msgspec
from msgspec import Struct

from placet.agent.pending_case_store import get_default_path
from placet.cli.gate_options import (
    DEFAULT_WAIT,
    HOST_MARGIN_S,
    find_default_policy_file,
    host_argument,
    load_policy,
    policy_option,
)
from placet.errors import SettingsError
from placet.hook.coding_agents.host_calls import CodingAgent, HostSettings, deny
from placet.hook.coding_agents.registry import load_coding_agent
from placet.protocol.duration import parse_duration
from placet.text.characters import mark_hidden

DEAD_HOOK = "The gate did not answer, so this was not done. Run: placet gate doctor"

settings_option = click.option(
    "--settings",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The settings file of the coding agent. Default: that of this user.",
)
yes_option = click.option("--yes", is_flag=True, help="Write the change without asking.")


class SettingsCopy(Struct, frozen=True, kw_only=True):
    """The settings file before `install`, and a digest of what `install` wrote."""

    before: str | None
    """None if there was no file."""
    digest_after: str


@click.command()
@host_argument
@settings_option
@click.option(
    "--wait",
    default=DEFAULT_WAIT,
    show_default=True,
    metavar="DURATION",
    help="How long a person may take. The timeout of the coding agent is set above it.",
)
@policy_option
@yes_option
def install(host: str, file: Path | None, wait: str, config: Path | None, yes: bool) -> None:
    """Set up the hook of a coding agent. Shows the change first, and keeps what is there."""
    agent = load_coding_agent(host)
    path = file or find_settings_file(agent)
    config = (config or find_default_policy_file(os.environ)).absolute()
    load_policy(config, os.environ)  # a policy that cannot be read would deny every call
    lasts_s = parse_duration(wait, "--wait").total_seconds()
    before = read_text(path)
    settings = parse_settings(agent, before, path)
    commands = {event: build_command(agent, event, wait, config) for event in agent.events}
    changed = agent.add_hooks(settings, commands, math.ceil(lasts_s) + HOST_MARGIN_S)
    after = before if changed == settings else agent.format_settings(changed, before or "")
    if after is None or not _confirm(path, before, after, yes):
        return
    copy_path = _find_copy(path)
    earlier = _read_copy(copy_path)
    if earlier is None or _digest(before or "") != earlier.digest_after:
        earlier = SettingsCopy(before=before, digest_after="")
    copy = SettingsCopy(before=earlier.before, digest_after=_digest(after))
    copy_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_text(copy_path, msgspec.json.encode(copy).decode())
    _write_text(path, after)
    click.echo(f"Installed. Check it: placet gate doctor {host}", err=True)
    if agent.next_step:
        click.echo(agent.next_step, err=True)


@click.command()
@host_argument
@settings_option
@yes_option
def uninstall(host: str, file: Path | None, yes: bool) -> None:
    """Remove the hook from a coding agent's settings. Restores the file, or keeps later changes to it."""
    agent = load_coding_agent(host)
    path = file or find_settings_file(agent)
    before = read_text(path)
    settings = parse_settings(agent, before, path)
    copy_path = _find_copy(path)
    copy = _read_copy(copy_path)
    after: str | None
    if before is not None and copy is not None and _digest(before) == copy.digest_after:
        after = copy.before
    elif before is None or not agent.find_hooks(settings):
        after = before
    else:
        after = agent.format_settings(agent.remove_hooks(settings), before)
    if not _confirm(path, before, after, yes):
        return
    if after is None:
        path.unlink()
    else:
        _write_text(path, after)
    copy_path.unlink(missing_ok=True)
    click.echo("Removed.", err=True)


# What is installed


def build_command(agent: CodingAgent, event: str, wait: str, config: Path) -> str:
    """Return the shell command of a hook. It prints a denial if the hook fails, is killed or is missing.

    What the hook prints counts only if it ended well, and then as a whole. Before the denial, the rest of the
    input is read: a host may take a broken pipe for a failed hook.
    """
    words = [str(find_program()), "gate", "run", agent.name, "--event", event, "--wait", wait]
    words += ["--config", str(config)]
    program = f'{shlex.join(words)} --host-process "$PPID"'
    denial = agent.format_decision(event, deny(DEAD_HOOK), None)
    failed = f"{{ cat > /dev/null; printf %s {shlex.quote(denial)}; }}"
    return f'out=$({program}) && printf %s "$out" || {failed}'


def find_program() -> Path:
    """Return the `placet` that runs now, by its full path: a hook may have another PATH."""
    for candidate in (Path(sys.argv[0]), Path(sys.executable).with_name("placet")):
        if candidate.name == "placet" and candidate.is_file():
            return candidate.absolute()
    raise SettingsError(
        "The program placet was not found. Install Placet into an environment, and run it there."
    )


def find_settings_file(agent: CodingAgent) -> Path:
    """Return the settings file of this user for a coding agent."""
    return Path(agent.find_settings_file(PurePosixPath(Path.home()), os.environ))


def read_text(path: Path) -> str | None:
    """Return the content of a settings file with its line endings, or None if there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}. Nothing was changed.") from error


def parse_settings(agent: CodingAgent, text: str | None, path: Path) -> HostSettings:
    """Return the settings in a file; raise SettingsError if they cannot be changed safely."""
    try:
        return agent.parse_settings(text or "")
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be used: {error}. Nothing was changed.") from error


def _confirm(path: Path, before: str | None, after: str | None, yes: bool) -> bool:
    """Show the change; return whether to write it."""
    if before == after:
        click.echo(f"{path}: nothing to change.", err=True)
        return False
    old, new = (before or "").splitlines(), (after or "").splitlines()
    for line in difflib.unified_diff(old, new, str(path), str(path), lineterm=""):
        click.echo(mark_hidden(line))
    return yes or click.confirm("Write this change?", err=True)


# Files


def _find_copy(path: Path) -> Path:
    name = _digest(str(path.absolute()))[:32]
    return get_default_path().parent / "gate" / f"{name}.json"


def _read_copy(path: Path) -> SettingsCopy | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SettingsCopy)
    except (OSError, msgspec.DecodeError):
        return None


def _write_text(path: Path, text: str) -> None:
    """Replace the content of a file at once, through links, with the rights it has."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
