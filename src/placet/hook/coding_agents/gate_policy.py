"""The policy of `placet gate`: allow, ask and deny rules over tool, command, path and working directory.

Deny wins over ask, and ask over allow. A shell command is allowed only if every part of it is: each program,
each command inside `$(…)`, and each file that it redirects to or from. In doubt, nothing is allowed and a
person is asked.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Literal
from unicodedata import normalize

from msgspec import Struct

from placet.errors import SettingsError
from placet.hook.coding_agents.file_arguments import list_paths, resolve_path
from placet.hook.coding_agents.host_calls import PROBE_TOOL, HostCall
from placet.hook.coding_agents.shell_commands import (
    WRAPPERS,
    ShellCommand,
    ShellWord,
    find_folders,
    find_inner_program,
    find_program_starts,
    get_program_name,
    is_assignment,
    parse_command,
)

RuleEffect = Literal["allow", "ask", "deny"]
RuleMatch = Literal["yes", "maybe", "no"]
EFFECTS: tuple[RuleEffect, ...] = ("deny", "ask", "allow")
TEXT_MEMBERS = ("server", "key_file")
RULE_MEMBERS = ("tool", "command", "path", "cwd", "reason", "until")
WRITE_TOOL, READ_TOOL = "Write", "Read"
"""The tools that a redirection of a shell command counts as."""


class GateRule(Struct, frozen=True, kw_only=True):
    """One rule. A call matches if it matches every member that is not empty, by one of its patterns."""

    effect: RuleEffect
    number: int
    """Its place among the rules of this effect, from 1."""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    reason: str = ""
    until: date | None = None
    """The last day, in UTC, on which an allow rule counts."""

    def counts_at(self, now: datetime | None) -> bool:
        """Return whether the rule counts at this time. Without a time, a rule with an end does not."""
        return self.until is None or (now is not None and now.date() <= self.until)

    @property
    def title(self) -> str:
        """What people call this rule, such as `deny rule 2`."""
        return f"{self.effect} rule {self.number}"


class GatePolicy(Struct, frozen=True, kw_only=True):
    """All rules of one file, and how a person is reached."""

    rules: tuple[GateRule, ...] = ()
    server: str | None = None
    key_file: str | None = None


class GateVerdict(Struct, frozen=True, kw_only=True):
    """What the policy says about a call; without an effect it says nothing."""

    effect: RuleEffect | None = None
    reason: str = ""


def parse_gate_policy(text: str, *, source: str = "policy") -> GatePolicy:
    """Return the policy in a TOML text. Raises SettingsError that names the rule and the member."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise SettingsError(f"{source} is not valid TOML: {error}.") from error
    if unknown := sorted(set(document) - {*EFFECTS, *TEXT_MEMBERS}):
        expected = ", ".join([*TEXT_MEMBERS, *(f"[[{effect}]]" for effect in EFFECTS)])
        raise SettingsError(f"{source}: unknown {', '.join(unknown)}. Use {expected}.")
    texts = {
        name: _read_text(document[name], f"{source}: {name}") for name in TEXT_MEMBERS if name in document
    }
    rules = [rule for effect in EFFECTS for rule in _read_rules(document.get(effect, []), effect, source)]
    return GatePolicy(rules=tuple(rules), **texts)


def evaluate(
    policy: GatePolicy,
    call: HostCall,
    *,
    home: str = "",
    find_real_path: Callable[[str], str] = str,
    now: datetime | None = None,
) -> GateVerdict:
    """Return what the policy says about a call at a time in UTC.

    `home` is the folder that `~` stands for. `find_real_path` follows symbolic links: an allow rule has to
    match the real path too, and for deny and ask rules either path counts.
    """
    if call.tool == PROBE_TOOL:
        return GateVerdict(effect="ask", reason="A probe of the gate.")
    facts = _CallFacts(call, home, find_real_path)
    unsure: GateRule | None = None
    for effect in ("deny", "ask"):
        for rule in (rule for rule in policy.rules if rule.effect == effect):
            match = facts.match_any_part(rule)
            if match == "yes":
                return GateVerdict(
                    effect=rule.effect, reason=rule.reason or f"By {rule.title} of the policy."
                )
            if match == "maybe":
                unsure = unsure or rule
    if unsure is not None:
        return GateVerdict(effect="ask", reason=f"This may match {unsure.title} of the policy.")
    allowing = [rule for rule in policy.rules if rule.effect == "allow" and rule.counts_at(now)]
    if call.kind == "tool" and facts.is_allowed(allowing):
        return GateVerdict(effect="allow", reason="Allowed by the policy.")
    return GateVerdict()


class _CallFacts:
    """What the rules compare a call with."""

    def __init__(self, call: HostCall, home: str, find_real_path: Callable[[str], str]) -> None:
        self.call = call
        self.home = home
        self._find_real_path = find_real_path
        self._real_paths: dict[str, str] = {}
        self.shell: ShellCommand | None = None if call.command is None else parse_command(call.command)
        start = resolve_path(call.folder, "/")
        found = (start,) if self.shell is None else find_folders(self.shell, start)
        self.folders = found or (start,)
        """The folders in which something of the call may run."""
        self.is_clear = call.is_clear and found is not None and (self.shell is None or self.shell.is_clear)
        """Whether there is nothing more to the call than what is known here."""

    # Deny and ask: one part that matches is enough, doubt counts, and upper and lower case are the same.

    def match_any_part(self, rule: GateRule) -> RuleMatch:
        is_in_folder = not rule.folders or any(
            self._fits_path(rule.folders, one, ignores_case=True)
            for one in self._with_real_paths(self.folders)
        )
        found: RuleMatch
        if self.shell is not None:
            found = self._match_shell_part(rule, self.shell)
        else:
            is_named = not rule.commands and self._names_tool(rule, self.call.tool, ignores_case=True)
            paths = (*self.call.paths, *self.call.texts)
            found = "yes" if is_named and self._names_any_path(rule, paths) else "no"
        if is_in_folder:
            return found
        return "no" if self.is_clear or found == "no" else "maybe"

    def _match_shell_part(self, rule: GateRule, shell: ShellCommand) -> RuleMatch:
        found: RuleMatch = "no"
        if self._names_tool(rule, self.call.tool, ignores_case=True):
            if not rule.commands and not rule.paths:
                return "yes"
            if not self.is_clear:
                found = "maybe"
            for words in shell.programs:
                match = self._match_program(rule, words)
                if match == "yes":
                    return match
                found = match if match == "maybe" else found
        if rule.commands:
            return found
        for one in shell.redirections:
            if self._names_tool(rule, WRITE_TOOL if one.writes else READ_TOOL, ignores_case=True):
                if not one.file.is_literal:
                    found = "maybe"
                elif self._names_any_path(rule, self._list_word_paths(one.file)):
                    return "yes"
        return found

    def _match_program(self, rule: GateRule, words: Sequence[ShellWord]) -> RuleMatch:
        found: RuleMatch = "yes"
        if rule.commands:
            found = _strongest(
                match_words(pattern, variant, ignores_case=True)
                for pattern in rule.commands
                for variant in _list_variants(words)
            )
        if rule.paths and found != "no":
            named = [path for word in words if word.text for path in self._list_word_paths(word)]
            if not self._names_any_path(rule, named):
                return "no" if all(word.is_literal for word in words) else "maybe"
        return found

    # Allow: every part has to match, and doubt does not count.

    def is_allowed(self, rules: Sequence[GateRule]) -> bool:
        rules = [rule for rule in rules if self._is_in_folder(rule)]
        if self.shell is None:
            return any(
                not rule.commands
                and self._names_tool(rule, self.call.tool)
                and self._names_every_path(rule, self.call.paths, self.call.texts)
                for rule in rules
            )
        named = [rule for rule in rules if self._names_tool(rule, self.call.tool)]
        if any(not rule.commands and not rule.paths for rule in named):
            return True
        return (
            self.is_clear
            and bool(self.shell.programs)
            and all(self._is_program_allowed(named, words) for words in self.shell.programs)
            and all(self._is_file_allowed(rules, one.file, one.writes) for one in self.shell.redirections)
        )

    def _is_in_folder(self, rule: GateRule) -> bool:
        return not rule.folders or (
            (self.is_clear or self.shell is None)
            and all(self._fits_path(rule.folders, one) for one in self._with_real_paths(self.folders))
        )

    def _is_program_allowed(self, rules: Sequence[GateRule], words: Sequence[ShellWord]) -> bool:
        return any(
            match_words(pattern, words) == "yes"
            and not _is_outside_folder(pattern, words)
            and self._is_inner_program_allowed(rules, pattern, words)
            for rule in rules
            if not rule.paths
            for pattern in rule.commands
        )

    def _is_inner_program_allowed(
        self, rules: Sequence[GateRule], pattern: str, words: Sequence[ShellWord]
    ) -> bool:
        """Return whether the pattern names the program that a wrapper runs, or a rule allows it."""
        operands = WRAPPERS.get(get_program_name(words[0])) if words else None
        if operands is None or pattern.split(maxsplit=1)[0] == "*" or _names_program(pattern, operands):
            return True
        inner = find_inner_program(words)
        return inner is not None and (not inner or self._is_program_allowed(rules, inner))

    def _is_file_allowed(self, rules: Iterable[GateRule], file: ShellWord, writes: bool) -> bool:
        tool = WRITE_TOOL if writes else READ_TOOL
        return file.is_literal and any(
            not rule.commands
            and self._names_tool(rule, tool)
            and self._names_every_path(rule, self._list_word_paths(file))
            for rule in rules
        )

    # One member of a rule

    def _names_tool(self, rule: GateRule, tool: str, *, ignores_case: bool = False) -> bool:
        return not rule.tools or any(
            matches_glob(pattern, tool, ignores_case=ignores_case) for pattern in rule.tools
        )

    def _names_any_path(self, rule: GateRule, paths: Iterable[str]) -> bool:
        return not rule.paths or any(
            self._fits_path(rule.paths, one, ignores_case=True) for one in self._with_real_paths(paths)
        )

    def _names_every_path(self, rule: GateRule, paths: Sequence[str], others: Sequence[str] = ()) -> bool:
        return not rule.paths or (
            bool(paths)
            and all(self._fits_path(rule.paths, one) for one in self._with_real_paths([*paths, *others]))
        )

    def _list_word_paths(self, word: ShellWord) -> list[str]:
        return [path for folder in self.folders for path in list_paths(word.text, folder=folder)]

    def _with_real_paths(self, paths: Iterable[str]) -> list[str]:
        """Return the paths and those that they really lead to; `~` is the home folder."""
        found = [self.home + path[1:] if path == "~" or path.startswith("~/") else path for path in paths]
        for path in found:
            if path not in self._real_paths:
                self._real_paths[path] = self._find_real_path(path) if path.startswith("/") else path
        return list(dict.fromkeys([*found, *(self._real_paths[path] for path in found)]))

    def _fits_path(self, patterns: Iterable[str], path: str, *, ignores_case: bool = False) -> bool:
        """Return whether a path matches one of the patterns. `a/**` matches the folder `a` too."""
        for pattern in patterns:
            start, rest = (_fold(text, ignores_case) for text in self._split_pattern(pattern))
            text = _fold(f"{path}/" if rest.endswith("/**") else path, ignores_case)
            if text.startswith(start) and matches_glob(rest, text[len(start) :], is_path=True):
                return True
        return False

    def _split_pattern(self, pattern: str) -> tuple[str, str]:
        """Return the folder that a pattern begins in, as text without stars, and the rest of the pattern."""
        if pattern == "~" or pattern.startswith("~/"):
            return self.home, pattern[1:]
        if pattern.startswith(("/", "**")):
            return "", pattern
        return f"{self.call.folder.rstrip('/')}/", pattern.removeprefix("./")


def match_words(pattern: str, words: Sequence[ShellWord], *, ignores_case: bool = False) -> RuleMatch:
    """Return whether a program with its arguments matches a pattern such as `git diff *`.

    A star in a word stands for any text in that word; a star as the last word for any further words. A word
    that only the shell knows may be any words. Only in the name of the program, case may be ignored.
    """
    expected = pattern.split()
    has_rest = bool(expected) and expected[-1] == "*"
    wanted = expected[:-1] if has_rest else expected
    for number, one in enumerate(wanted):
        if number >= len(words):
            return "no"
        if not words[number].is_literal:
            return "maybe"
        if not matches_glob(one, words[number].text, ignores_case=ignores_case and number == 0):
            return "no"
    rest = words[len(wanted) :]
    if has_rest or not rest:
        return "yes"
    return "no" if any(word.is_literal for word in rest) else "maybe"


def _names_program(pattern: str, operands: int) -> bool:
    """Return whether a pattern for a wrapper says which program it runs, such as `timeout * npm test`."""
    words = [word for word in pattern.split()[1:] if not word.startswith("-") and not is_assignment(word)]
    return len(words) > operands and "*" not in words[operands]


def _is_outside_folder(pattern: str, words: Sequence[ShellWord]) -> bool:
    """Return whether a star below a folder, as in `cat notes/*`, would stand for `..`."""
    return any(
        "*" in one and "/" in one and ".." in word.text.split("/") and ".." not in one.split("/")
        for one, word in zip(pattern.split(), words, strict=False)
    )


def _list_variants(words: Sequence[ShellWord]) -> Iterator[Sequence[ShellWord]]:
    """Yield the program as written, by its file name alone, and what a wrapper such as `sudo` would run."""
    yield words
    for start in find_program_starts(words):
        if start < len(words):
            yield (ShellWord(get_program_name(words[start]), words[start].is_literal), *words[start + 1 :])


def _strongest(found: Iterable[RuleMatch]) -> RuleMatch:
    matches = set(found)
    return "yes" if "yes" in matches else "maybe" if "maybe" in matches else "no"


def matches_glob(pattern: str, text: str, *, is_path: bool = False, ignores_case: bool = False) -> bool:
    """Return whether the whole text matches: in a path, `*` stays within one folder and `**` does not.

    The time is linear in the length of the text, for any pattern.
    """
    pattern, text = _fold(pattern, ignores_case), _fold(text, ignores_case)
    units = _read_glob(pattern, is_path)
    stars = sum(1 << place for place, unit in enumerate(units) if unit in ("*", "**"))
    masks = _build_masks(units)
    others = masks[""]
    folder_stars = sum(1 << place for place, unit in enumerate(units) if unit == "*")
    reached = _skip_stars(1, stars)
    for sign in text:
        staying = reached & (stars & ~folder_stars if sign == "/" else stars)
        reached = _skip_stars(staying | (reached & masks.get(sign, others)) << 1, stars)
        if not reached:
            return False
    return bool(reached >> len(units) & 1)


def _fold(text: str, ignores_case: bool) -> str:
    """Return a text as file systems compare names that ignore case and the form of accents."""
    return (
        normalize("NFC", text.casefold())
        if ignores_case and not text.isascii()
        else (text.lower() if ignores_case else text)
    )


def _skip_stars(reached: int, stars: int) -> int:
    """Return the places that can be reached too, because a star may stand for nothing."""
    while more := (reached & stars) << 1 & ~reached:
        reached |= more
    return reached


@lru_cache(maxsize=1024)
def _read_glob(pattern: str, is_path: bool) -> tuple[str, ...]:
    """Return the characters and the stars of a pattern. Outside paths, every star stands for any text."""
    parts = re.split(r"(\*+)", pattern)
    any_text = {False: "**", True: "*"}[is_path]
    return tuple(
        unit
        for part in parts
        for unit in ((any_text if part == "*" else "**",) if part.startswith("*") else part)
    )


@lru_cache(maxsize=1024)
def _build_masks(units: tuple[str, ...]) -> dict[str, int]:
    """Return the places at which each character is expected, as bits."""
    masks = {"": 0}
    for place, unit in enumerate(units):
        if unit not in ("*", "**"):
            masks[unit] = masks.get(unit, 0) | 1 << place
    return masks


# Reading the file


def _read_rules(raw: Any, effect: RuleEffect, source: str) -> Iterator[GateRule]:
    if not isinstance(raw, list) or not all(isinstance(one, Mapping) for one in raw):
        raise SettingsError(f"{source}: write rules as [[{effect}]] tables.")
    for number, one in enumerate(raw, start=1):
        where = f"{source}: {effect} rule {number}"
        if unknown := sorted(set(one) - set(RULE_MEMBERS)):
            raise SettingsError(f"{where}: unknown {', '.join(unknown)}. Use {', '.join(RULE_MEMBERS)}.")
        rule = GateRule(
            effect=effect,
            number=number,
            tools=_read_patterns(one, "tool", where),
            commands=_read_patterns(one, "command", where),
            paths=_read_patterns(one, "path", where),
            folders=_read_patterns(one, "cwd", where),
            reason=_read_text(one.get("reason", ""), f"{where}: reason"),
            until=_read_until(one, effect, where),
        )
        if not (rule.tools or rule.commands or rule.paths or rule.folders):
            raise SettingsError(f'{where} is about nothing. Name a tool; tool = "*" means every tool.')
        if rule.commands and rule.paths and effect == "allow":
            raise SettingsError(f"{where}: use command or path, not both. Write one rule for each.")
        yield rule


def _read_patterns(rule: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    if name not in rule:
        return ()
    raw = rule[name]
    patterns = [raw] if isinstance(raw, str) else raw
    if not isinstance(patterns, list) or not patterns:
        raise SettingsError(f"{where}: {name} must be a text or a list of texts.")
    if not all(isinstance(one, str) and one.strip() for one in patterns):
        raise SettingsError(f"{where}: {name} must hold texts that are not empty.")
    return tuple(patterns)


def _read_until(rule: Mapping[str, Any], effect: RuleEffect, where: str) -> date | None:
    until = rule.get("until")
    if until is None:
        return None
    if effect != "allow":
        raise SettingsError(f"{where}: until is for allow rules. Remove the rule when you do not need it.")
    if not isinstance(until, date) or isinstance(until, datetime):
        raise SettingsError(f"{where}: until must be a date without quotes, such as 2026-12-31.")
    return until


def _read_text(raw: Any, where: str) -> str:
    if not isinstance(raw, str):
        raise SettingsError(f"{where} must be a text.")
    return raw
