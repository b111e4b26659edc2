"""Patterns for allowed argument values: `{"exact": …}`, `{"glob": "…"}` or `{"from": …, "to": …}`.

In doubt a value does not match: another type, an invalid pattern or a value that is too long. Matching takes
time linear in the length of the text, for any pattern.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple
from unicodedata import category, normalize

from placet.text.characters import is_storable
from placet.text.wording import Amount, message

MAX_GLOB_LENGTH = 500
MAX_TEXT_LENGTH = 10_000
MAX_DEPTH = 32
MAX_NUMBER = 2**53 - 1
MIN_LETTERS = 3
"""A glob whose longest literal part is shorter matches almost anything."""

NAME_SIGNS = frozenset("_-.~+")
"""Characters that one star matches besides letters and digits; it never matches a separator."""
STAR, ESCAPE = "*", "\\"
SLASHES = ("/", ESCAPE)
STEPS = ("..", ".")
NO_RANGE = message("Write a number here that is not smaller than the one of this call.")


def fits(pattern: Any, value: Any) -> bool:
    """Return whether a pattern allows this argument value."""
    if find_pattern_error(pattern) is not None:
        return False
    if "exact" in pattern:
        return is_identical(pattern["exact"], value)
    if "glob" in pattern:
        return type(value) is str and is_storable(value) and matches(pattern["glob"], value)
    return _is_within(pattern["from"], pattern["to"], value)


def find_pattern_error(pattern: Any) -> str | None:
    """Return what is wrong with a pattern, or None."""
    if not isinstance(pattern, Mapping):
        return "A pattern is an object."
    if pattern.keys() == {"exact"}:
        return None if is_json(pattern["exact"]) else "The exact value is not JSON."
    if pattern.keys() == {"glob"}:
        return _find_glob_error(pattern["glob"])
    if pattern.keys() == {"from", "to"}:
        return _find_range_error(pattern["from"], pattern["to"])
    return "A pattern has either exact, or glob, or from and to."


def matches_almost_anything(pattern: Mapping[str, Any]) -> bool:
    """Return whether a pattern matches nearly any text."""
    if "glob" not in pattern:
        return False
    runs = groupby(_read(pattern["glob"]), key=lambda token: token.literal is not None)
    return max((len([*run]) for own, run in runs if own), default=0) < MIN_LETTERS


def is_identical(one: Any, other: Any, *, depth: int = MAX_DEPTH) -> bool:
    """Return whether two JSON values are equal in value and type: 1, 1.0, true and "1" all differ."""
    if type(one) is not type(other) or depth < 0:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            type(name) is str and is_identical(part, other[name], depth=depth - 1)
            for name, part in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(
            is_identical(part, twin, depth=depth - 1) for part, twin in zip(one, other, strict=True)
        )
    return isinstance(one, str | int | float | None) and bool(one == other)


def is_json(value: Any, *, depth: int = MAX_DEPTH) -> bool:
    """Return whether a value is JSON that every JSON implementation preserves exactly."""
    if depth < 0:
        return False
    if isinstance(value, dict):
        return all(
            isinstance(name, str) and is_storable(name) and is_json(part, depth=depth - 1)
            for name, part in value.items()
        )
    if isinstance(value, list):
        return all(is_json(part, depth=depth - 1) for part in value)
    if isinstance(value, str):
        return is_storable(value)
    return value is None or isinstance(value, bool) or _is_number(value)


def as_glob(text: str) -> str:
    """Return the glob that matches only this text."""
    return text.replace(ESCAPE, ESCAPE * 2).replace(STAR, ESCAPE + STAR)


def matches(glob: str, text: str) -> bool:
    """Return whether the whole text matches: `*` matches letters, digits and `_-.~+`, `**` any text.

    A backslash escapes the next character. A star between slashes matches at least one character. The path
    segments `..` and `.` match only if the glob has as many of them.
    """
    if len(text) > MAX_TEXT_LENGTH or any(
        _count_steps(text, step) > _count_steps(glob, step) for step in STEPS
    ):
        return False
    machine = _compile_machine(glob)
    places = machine.start
    for character in text:
        stay = machine.anything | (machine.names if _is_in_a_name(character) else 0)
        places = (places & stay & ~machine.firsts) | (places & _advance(machine, character)) << 1
        places |= (places & machine.stars) << 1
        if not places:
            return False
    return bool(places & machine.end)


class _Token(NamedTuple):
    literal: str | None
    anything: bool = False
    first: bool = False


class _Machine(NamedTuple):
    """A non-deterministic automaton; bit n of a state set means that the first n tokens have matched."""

    start: int
    end: int
    stars: int
    firsts: int
    """The first character of a non-empty name; the next star matches the rest of it."""
    names: int
    anything: int
    literals: Mapping[str, int]


@lru_cache(maxsize=256)
def _compile_machine(glob: str) -> _Machine:
    tokens = _with_names_begun(_read(glob))
    literals: dict[str, int] = defaultdict(int)
    firsts = names = anything = 0
    for place, token in enumerate(tokens):
        if token.literal is not None:
            literals[token.literal] |= 1 << place
        elif token.anything:
            anything |= 1 << place
        else:
            names |= 1 << place
            firsts |= token.first << place
    stars = (names | anything) & ~firsts
    start = 1 | (stars & 1) << 1
    return _Machine(start, 1 << len(tokens), stars, firsts, names, anything, dict(literals))


def _advance(machine: _Machine, character: str) -> int:
    """Return the states that advance on this character."""
    literal = machine.literals.get(character, 0)
    return literal | machine.firsts if _is_in_a_name(character) else literal


def _with_names_begun(tokens: list[_Token]) -> list[_Token]:
    """Return the tokens, with an extra token for the first character of a star between slashes."""
    begun: list[_Token] = []
    for place, token in enumerate(tokens):
        around = [*tokens[max(0, place - 1) : place], *tokens[place + 1 : place + 2]]
        if token == _Token(None) and around and all(one.literal in SLASHES for one in around):
            begun.append(_Token(None, first=True))
        begun.append(token)
    return begun


def _read(glob: str) -> list[_Token]:
    """Return the tokens of a glob; adjacent stars are merged into one."""
    tokens: list[_Token] = []
    for token in _split(glob):
        if token.literal is None and tokens and tokens[-1].literal is None:
            tokens[-1] = _Token(None, anything=True)
        else:
            tokens.append(token)
    return tokens


def _split(glob: str) -> list[_Token]:
    tokens, characters = [], iter(glob)
    for character in characters:
        if character == ESCAPE:
            tokens.append(_Token(next(characters, ESCAPE)))
        else:
            tokens.append(_Token(None) if character == STAR else _Token(character))
    return tokens


def _is_in_a_name(character: str) -> bool:
    return character in NAME_SIGNS or (character.isalnum() and (character.isascii() or _is_letter(character)))


@lru_cache(maxsize=4096)
def _is_letter(character: str) -> bool:
    """Return whether it is still a letter after NFKC normalization, which turns some into punctuation."""
    return all(
        part.isalnum() or part in NAME_SIGNS or category(part).startswith("M")
        for part in normalize("NFKC", character)
    )


def _count_steps(text: str, step: str) -> int:
    return text.replace(ESCAPE, "/").split("/").count(step)


def _is_within(low: float, high: float, value: Any) -> bool:
    if not _is_number(value) or (isinstance(value, float) and type(low) is type(high) is int):
        return False
    return bool(low <= value <= high)


def _find_glob_error(glob: Any) -> str | None:
    if not isinstance(glob, str) or not glob:
        return message("Write what the text looks like; it cannot be empty.")
    if len(glob) > MAX_GLOB_LENGTH:
        return message(
            "What the text looks like has at most {most} characters.", most=Amount(MAX_GLOB_LENGTH)
        )
    return None if is_storable(glob) else "A glob has no control characters."


def _find_range_error(low: Any, high: Any) -> str | None:
    if not (_is_number(low) and _is_number(high)):
        return NO_RANGE
    return None if low <= high else NO_RANGE


def _is_number(value: Any) -> bool:
    if type(value) not in (int, float):
        return False
    return bool(-MAX_NUMBER <= value <= MAX_NUMBER)
