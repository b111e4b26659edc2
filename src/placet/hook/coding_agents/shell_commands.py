"""Split a shell command into the programs it runs and the files it redirects to or from.

The parser knows the common part of bash, dash and zsh. What it does not know makes a command unclear, and an
unclear command is never allowed by a policy.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from placet.hook.coding_agents.file_arguments import resolve_path

MAX_COMMAND_LENGTH = 20_000
MAX_DEPTH = 8
MAX_READ_LENGTH = 10 * MAX_COMMAND_LENGTH
"""How much text is read in all: a script inside a command is read again."""
KEYWORDS = frozenset(
    (
        *(
            "if",
            "then",
            "else",
            "elif",
            "fi",
            "for",
            "while",
            "until",
            "do",
            "done",
            "case",
            "esac",
            "select",
        ),
        *("function", "coproc", "repeat", "foreach", "end", "always", "[[", "]]", "{", "}", "!"),
    )
)
HARMLESS_FILES = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr"))
FOLDER_COMMANDS = frozenset(("cd", "pushd", "popd", "chdir"))
SOURCE_COMMANDS = frozenset(("source", "."))
MODIFIERS = frozenset(("command", "builtin", "noglob", "nocorrect", "-"))
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
WRAPPERS: Mapping[str, int] = {
    **dict.fromkeys(("sudo", "doas", "pkexec", "env", "nohup", "nice", "ionice", "time", "xargs"), 0),
    **dict.fromkeys(("command", "builtin", "exec", "noglob", "nocorrect", "-", "busybox", "toybox"), 0),
    **dict.fromkeys(("stdbuf", "unbuffer", "setsid", "strace", "ltrace", "unshare", "prlimit"), 0),
    **dict.fromkeys(("caffeinate", "systemd-run"), 0),
    **dict.fromkeys(("timeout", "flock", "chroot", "taskset", "chrt", "setarch"), 1),
}
"""Programs that run the program in their arguments -> how many arguments come before it, without options."""
SCRIPT_WRAPPERS = frozenset(("eval", "watch", "parallel"))
"""Programs that run their arguments as a command line."""
FINDERS: Mapping[str, frozenset[str]] = {
    "find": frozenset(("-exec", "-execdir", "-ok", "-okdir")),
    "fd": frozenset(("-x", "-X", "--exec", "--exec-batch")),
}
"""Programs that run a program for each file -> the arguments after which it stands."""
MAX_FOLDERS = 16

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?*@#$!-]")
_BRACED_NAME = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<|>")
_SEPARATOR = re.compile(r"&&|\|\||\|&|[|;&\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RUNS_SCRIPT = re.compile(r"-[a-z]*c[a-z]*")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")


class ShellWord(Struct, frozen=True):
    """One word. A word that is not literal stands for text that only the shell knows."""

    text: str
    is_literal: bool = True


class Redirection(Struct, frozen=True):
    """A file that a command writes to or reads from."""

    file: ShellWord
    writes: bool


class ShellCommand(Struct, frozen=True, kw_only=True):
    """The parts of a command line: every program that it may run, in `$(…)` too, and every file."""

    programs: tuple[tuple[ShellWord, ...], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    is_clear: bool = True
    """Whether the parser understood every part."""


def parse_command(text: str) -> ShellCommand:
    """Return the parts of a command line. It is not clear if there may be more than these."""
    reader = _CommandReader(text, 0, _ReadingLimit())
    if len(text) > MAX_COMMAND_LENGTH or "\0" in text:
        return ShellCommand(is_clear=False)
    reader.read(0, closing="")
    return ShellCommand(
        programs=tuple(reader.programs),
        redirections=tuple(reader.redirections),
        is_clear=not reader.unclear,
    )


def find_program_starts(words: Sequence[ShellWord]) -> Iterator[int]:
    """Yield the places in a program's words where a program may begin: after assignments and wrappers too."""
    start = next((at for at, word in enumerate(words) if not is_assignment(word.text)), len(words))
    yield from dict.fromkeys((0, start))
    if start < len(words) and get_program_name(words[start]) in WRAPPERS:
        yield from range(start + 1, len(words))


def find_folders(command: ShellCommand, start: str) -> tuple[str, ...] | None:
    """Return the folders in which the programs of a command may run; None if that is not clear."""
    folders = [start]
    for words in command.programs:
        if not _changes_folder(words):
            continue
        target = words[-1]
        is_plain = len(words) == 2 and words[0].text == "cd" and all(word.is_literal for word in words)
        if not is_plain or not target.text or target.text[0] in "-~+":
            return None
        folders += [resolve_path(target.text, folder) for folder in folders]
        folders = list(dict.fromkeys(folders))
        if len(folders) > MAX_FOLDERS:
            return None
    return tuple(folders)


def find_inner_program(words: Sequence[ShellWord]) -> Sequence[ShellWord] | None:
    """Return the program that a wrapper such as `xargs` runs; None if that is not clear."""
    start = 1 + WRAPPERS[get_program_name(words[0])]
    if any(word.text.startswith("-") or not word.is_literal for word in words[1 : start + 1]):
        return None
    return words[start:]


def is_assignment(text: str) -> bool:
    """Return whether a word sets a variable, such as `A=1`."""
    return _ASSIGNMENT.match(text) is not None


def get_program_name(word: ShellWord) -> str:
    """Return the file name of a program, without its folder."""
    return word.text.rpartition("/")[2]


def _changes_folder(words: Sequence[ShellWord]) -> bool:
    """Return whether a program may change the folder of those after it."""
    rest = [word for word in words if not is_assignment(word.text)]
    while rest and rest[0].is_literal and rest[0].text in MODIFIERS:
        rest = [word for word in rest[1:] if not word.text.startswith("-")]
    return bool(rest) and (not rest[0].is_literal or rest[0].text in {*FOLDER_COMMANDS, *SOURCE_COMMANDS})


class _ReadingLimit:
    """Counts the text that is read for one command."""

    def __init__(self) -> None:
        self._remaining = MAX_READ_LENGTH

    def take(self, text: str) -> bool:
        """Count a text; return whether it may be read."""
        self._remaining -= len(text)
        return self._remaining >= 0


class _CommandReader:
    """Reads one command line, and the command lines inside it."""

    def __init__(self, text: str, depth: int, limit: _ReadingLimit, *, is_counted: bool = False) -> None:
        self.text = text
        self.depth = depth
        self.limit = limit
        self.programs: list[tuple[ShellWord, ...]] = []
        self.redirections: list[Redirection] = []
        self.unclear = depth > MAX_DEPTH or not (is_counted or limit.take(text))
        self._words: list[ShellWord] = []
        self._raw: list[str] = []
        self._literal = True
        self._started = self._quoted = False
        self._pending: str | None = None

    def read(self, at: int, closing: str) -> int:
        """Read up to the closing character or the end; return the position after it."""
        text = self.text
        while at < len(text) and not self.unclear:
            sign = text[at]
            if sign == closing:
                self._end_program()
                return at + 1
            if sign in " \t":
                self._end_word()
                at += 1
            elif sign == "#" and not self._started:
                self.unclear = True  # a comment in some shells, words of the program in others
            elif match := self._match_redirection(at):
                at = self._read_redirection(match)
            elif match := _SEPARATOR.match(text, at):
                self._end_program()
                at = match.end()
            else:
                at = self._read_sign(at)
        if closing:
            self.unclear = True
        self._end_program()
        return at

    # Words

    def _read_sign(self, at: int) -> int:
        sign = self.text[at]
        if sign == "\\":
            return self._read_escape(at)
        if sign == "'":
            end = self.text.find("'", at + 1)
            self.unclear |= end < 0
            self._add(self.text[at + 1 : end], quoted=True)
            return end + 1
        if sign == '"':
            return self._read_double_quoted(at + 1)
        if sign == "$":
            return self._read_expansion(at)
        if sign == "`":
            return self._read_backticks(at)
        if sign in "()":
            self.unclear = True
        expands = sign in "*?[{^" or (not self._started and sign in "~=") or (sign == "!" and self._started)
        self._add(sign, literal=not expands)
        return at + 1

    def _read_escape(self, at: int) -> int:
        if self.text[at + 1 : at + 2] == "\n":
            return at + 2
        self.unclear |= at + 1 >= len(self.text)
        self._add(self.text[at + 1 : at + 2], quoted=True)
        return at + 2

    def _read_double_quoted(self, at: int) -> int:
        self._add("", quoted=True)
        while at < len(self.text) and not self.unclear:
            sign = self.text[at]
            if sign == '"':
                return at + 1
            if sign == "\\" and self.text[at + 1 : at + 2] in tuple('$`"\\'):
                self._add(self.text[at + 1], quoted=True)
                at += 2
            elif sign == "\\" and self.text[at + 1 : at + 2] == "\n":
                at += 2
            elif sign == "$":
                at = self._read_expansion(at, inside_quotes=True)
            elif sign == "`":
                at = self._read_backticks(at)
            else:
                self._add(sign, quoted=True)
                at += 1
        self.unclear = True
        return at

    def _read_expansion(self, at: int, *, inside_quotes: bool = False) -> int:
        after = self.text[at + 1 : at + 2]
        if after == "(":
            self.unclear |= self.text.startswith("((", at + 1)  # arithmetic
            self._add("$(…)", literal=False)
            return self._read_inside(at + 2)
        match = (_BRACED_NAME if after == "{" else _NAME).match(self.text, at + 1)
        if match is not None:
            self._add("$" + match[0], literal=False)
            return match.end()
        if not after or after in " \t\n" or (inside_quotes and after == '"'):
            self._add("$")
            return at + 1
        self.unclear = True
        return at + 1

    def _read_inside(self, at: int) -> int:
        """Read a command in parentheses that begins here; return the position after it."""
        inner = _CommandReader(self.text, self.depth + 1, self.limit, is_counted=True)
        end = inner.read(at, closing=")")
        self._take_over(inner)
        return end

    def _read_backticks(self, at: int) -> int:
        end = self.text.find("`", at + 1)
        content = self.text[at + 1 : end]
        if end < 0 or "\\" in content:
            self.unclear = True
        inner = _CommandReader(content, self.depth + 1, self.limit)
        inner.read(0, closing="")
        self._take_over(inner)
        self._add("`…`", literal=False)
        return end + 1

    def _take_over(self, inner: "_CommandReader") -> None:
        self.programs += inner.programs
        self.redirections += inner.redirections
        self.unclear |= inner.unclear

    def _add(self, text: str, *, literal: bool = True, quoted: bool = False) -> None:
        self._raw.append(text)
        self._started = True
        self._literal &= literal
        self._quoted |= quoted

    def _end_word(self) -> None:
        if not self._started:
            return
        word = ShellWord("".join(self._raw), self._literal)
        is_keyword = not self._words and not self._quoted and word.text in KEYWORDS
        self._raw, self._literal, self._started, self._quoted = [], True, False, False
        if self._pending is not None:
            self._end_redirection(self._pending, word)
            return
        self.unclear |= is_keyword
        self._words.append(word)

    def _end_program(self) -> None:
        self._end_word()
        self.unclear |= self._pending is not None
        words, self._words = self._words, []
        self._add_program(words)

    def _read_inner_scripts(self, words: list[ShellWord]) -> None:
        """Read the scripts that `eval` and `sh -c` run, as further parts of this command."""
        for start in find_program_starts(words):
            if self.unclear:
                return
            name = get_program_name(words[start]) if start < len(words) else ""
            rest = words[start + 1 :]
            if name in SCRIPT_WRAPPERS:
                self.unclear |= name != "eval" and (not rest or rest[0].text.startswith("-"))
                self._read_script(rest)
            elif name in FINDERS:
                self._read_found_programs(rest, FINDERS[name])
            elif name in SHELLS and any(_RUNS_SCRIPT.fullmatch(word.text) for word in rest):
                self._read_script([word for word in rest if not word.text.startswith("-")][:1])
            elif name in SHELLS and all(word.text.startswith("-") for word in rest):
                self.unclear = True  # it runs what it reads

    def _read_found_programs(self, words: list[ShellWord], marks: frozenset[str]) -> None:
        """Add the programs that `find -exec` runs. Braces stand for a file."""
        is_readable = self.limit.take(" ".join(word.text for word in words))
        self.unclear |= not is_readable or not all(word.is_literal or word.text == "{}" for word in words)
        for at, word in enumerate(words):
            if word.text in marks and not self.unclear:
                rest = words[at + 1 :]
                end = next((place for place, one in enumerate(rest) if one.text in (";", "+")), len(rest))
                self._add_program(ShellWord(one.text, is_literal="{}" not in one.text) for one in rest[:end])

    def _add_program(self, words: Iterable[ShellWord]) -> None:
        program = tuple(words)
        if program:
            self.programs.append(program)
            self._read_inner_scripts(list(program))

    def _read_script(self, script: list[ShellWord]) -> None:
        inner = _CommandReader(" ".join(word.text for word in script), self.depth + 1, self.limit)
        inner.read(0, closing="")
        self._take_over(inner)
        self.unclear |= not all(word.is_literal for word in script)

    # Redirections

    def _match_redirection(self, at: int) -> Any:
        if self.text[at] == "&" and not self.text.startswith("&>", at):
            return None
        return _REDIRECTION.match(self.text, at)

    def _read_redirection(self, match: re.Match[str]) -> int:
        sign, end = match[0], match.end()
        if sign in ("<", ">") and self.text.startswith("(", end):
            self._add(f"{sign}(…)", literal=False)
            return self._read_inside(end + 1)
        if self._started and not self._quoted and "".join(self._raw).isdecimal():
            self._raw, self._started = [], False  # the number of a file descriptor, as in 2>&1
        self._end_word()
        self.unclear |= sign in ("<<", "<<-") or self._pending is not None
        self._pending = sign
        return end

    def _end_redirection(self, sign: str, word: ShellWord) -> None:
        self._pending = None
        if sign == "<<<" or (sign in (">&", "<&") and word.is_literal and _DESCRIPTOR.fullmatch(word.text)):
            return
        if not (word.is_literal and word.text in HARMLESS_FILES):
            self.redirections.append(Redirection(word, writes=sign not in ("<", "<&")))
