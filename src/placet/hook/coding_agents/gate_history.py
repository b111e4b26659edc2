"""What people decided about the calls of coding agents, and the rules that this history suggests. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from placet.hook.coding_agents.host_calls import HostCall, HostDecision
from placet.hook.coding_agents.shell_commands import (
    FOLDER_COMMANDS,
    SCRIPT_WRAPPERS,
    SHELLS,
    WRAPPERS,
    get_program_name,
    parse_command,
)
from placet.text.truncation import truncate

MAX_COMMAND = 2_000
MAX_SHOWN = 5
SHOWN_WIDTH = 120
MIN_APPROVALS = 5
LASTS = timedelta(days=7)
RISKY_PROGRAMS = frozenset(
    (
        *SHELLS,
        *WRAPPERS,
        *SCRIPT_WRAPPERS,
        *FOLDER_COMMANDS,
        *("sed", "cp", "gh", "mail", "sendmail", "sqlite3", "mysql", "redis-cli", "open", "xdg-open"),
        *("rm", "rmdir", "mv", "dd", "mkfs", "shred", "truncate", "chmod", "chown", "chgrp", "ln", "tee"),
        *("kill", "pkill", "killall", "shutdown", "reboot", "systemctl", "service", "crontab", "at", "su"),
        *("curl", "wget", "ssh", "scp", "rsync", "nc", "ftp", "telnet", "socat", "eval", "source", "."),
        *("docker", "podman", "kubectl", "helm", "terraform", "ansible", "aws", "gcloud", "az", "psql"),
        *("python", "python3", "node", "perl", "ruby", "php", "deno", "bun", "awk", "npx", "uvx", "pipx"),
    )
)
"""Programs that delete, reach other machines, change rights or run anything."""
RISKY_WORDS = frozenset(
    (
        *("push", "publish", "deploy", "release", "install", "uninstall"),
        *("delete", "destroy", "drop", "reset", "clean", "rm", "remove", "prune", "purge", "truncate"),
        *("checkout", "restore", "rebase", "merge", "apply", "migrate", "upgrade", "upload", "send"),
        *("-delete", "--delete", "-D", "-f", "--force", "--hard", "-exec", "-execdir", "-ok", "-okdir"),
    )
)
"""Words that make any program risky, as in `git push`."""


class GateRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision of a person."""

    at: datetime
    host: str
    tool: str
    verdict: Literal["allow", "deny"]
    session: str = ""
    folder: str = ""
    command: str = ""
    path: str = ""
    changed: bool = False

    @property
    def title(self) -> str:
        """What was asked, on one line."""
        what = " ".join((self.command or f"{self.tool} {self.path}").split())
        return truncate(what, SHOWN_WIDTH)


class RuleSuggestion(Struct, frozen=True, kw_only=True):
    """A command that people approved again and again, always as it was."""

    tool: str
    command: str
    folder: str
    count: int

    def format_rule(self, today: date) -> str:
        """Return the rule as TOML, for a week."""
        members = {"tool": self.tool, "command": self.command, "cwd": self.folder}
        lines = [f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in members.items() if text]
        return "\n".join(["[[allow]]", *lines, f"until = {today + LASTS}", ""])


def build_record(call: HostCall, decision: HostDecision, at: datetime) -> GateRecord:
    """Return the record of a decision."""
    return GateRecord(
        at=at,
        host=call.host,
        tool=call.tool,
        verdict=decision.verdict,
        session=call.session,
        folder=call.folder,
        command=(call.command or "")[:MAX_COMMAND],
        path=call.paths[0] if call.paths else "",
        changed=decision.arguments is not None and call.kind == "tool",
    )


def parse_records(lines: Iterable[str]) -> Iterator[GateRecord]:
    """Yield the records in a history; other lines are left out."""
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=GateRecord)
        except (msgspec.DecodeError, RecursionError):
            continue


def describe_session(records: Sequence[GateRecord], session: str) -> str:
    """Return the last decisions of a session, one on each line."""
    mine = [one for one in records if session and one.session == session]
    words = {"allow": "approved", "deny": "rejected"}
    lines = [
        f"{one.at:%H:%M} {words[one.verdict]}{' with changes' if one.changed else ''}: {one.title}"
        for one in mine[-MAX_SHOWN:]
    ]
    earlier = len(mine) - len(lines)
    title = f"{earlier} earlier decision{'' if earlier == 1 else 's'}"
    return "\n".join([title, *lines] if earlier else lines)


def suggest_rules(records: Iterable[GateRecord]) -> list[RuleSuggestion]:
    """Return the commands that were approved often, never rejected or changed, and are no high risk."""
    counts: dict[tuple[str, str, str], int] = {}
    refused = set()
    for one in records:
        key = (one.tool, one.command, one.folder)
        if one.verdict == "allow" and not one.changed:
            counts[key] = counts.get(key, 0) + 1
        else:
            refused.add(key)
    return [
        RuleSuggestion(tool=tool, command=command, folder=folder, count=count)
        for (tool, command, folder), count in sorted(counts.items(), key=lambda item: -item[1])
        if count >= MIN_APPROVALS
        and (tool, command, folder) not in refused
        and not is_high_risk(command)
        and folder.isprintable()
        and folder.startswith("/")
        and "*" not in folder + tool
    ]


def is_high_risk(command: str) -> bool:
    """Return whether no rule may be suggested for a command: it is risky, or a pattern could not name it."""
    parsed = parse_command(command)
    if (
        not command.isprintable()
        or not parsed.is_clear
        or not parsed.programs
        or parsed.redirections
        or len(command) >= MAX_COMMAND
    ):
        return True
    for words in parsed.programs:
        if not all(word.is_literal and word.text and not set(word.text) & set(" \t\n*") for word in words):
            return True
        if (
            "/" in words[0].text
            or "=" in words[0].text
            or get_program_name(words[0]).lower() in RISKY_PROGRAMS
        ):
            return True
        if any(word.text in RISKY_WORDS for word in words):
            return True
    return len(parsed.programs) != 1 or " ".join(word.text for word in parsed.programs[0]) != command.strip()
