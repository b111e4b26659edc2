"""The parts of a shell command: what runs, what is written and read, and what is not clear."""

import pytest

from placet.hook.coding_agents.shell_commands import parse_command


def programs(text: str) -> list[str]:
    """The programs of a command that is clear; a word that only the shell knows is marked."""
    parsed = parse_command(text)
    assert parsed.is_clear
    return [
        " ".join(word.text if word.is_literal else f"<{word.text}>" for word in words)
        for words in parsed.programs
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git status", ["git status"]),
        ("  git   status\n", ["git status"]),
        ("a && b || c ; d & e | f |& g\nh", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("a&&b", ["a", "b"]),
        ("echo 'a && b' \"c; d\" e\\;f", ["echo a && b c; d e;f"]),
        ("r''m \"x\"y", ["rm xy"]),
        ("gi\\\nt status", ["git status"]),
        ("echo $(id -u) done", ["id -u", "echo <$(…)> done"]),
        ('echo "$(id | sort)"', ["id", "sort", "echo <$(…)>"]),
        ("echo `id`", ["id", "echo <`…`>"]),
        ("diff <(a) >(b)", ["a", "b", "diff <<(…)> <>(…)>"]),
        ("echo $HOME ${USER} $1 '$HOME'", ["echo <$HOME> <${USER}> <$1> $HOME"]),
        ("echo a$ \"b$\"", ["echo a$ b$"]),
        ("ls *.py ~ ~/x a?b [ab] {a,b}", ["ls <*.py> <~> <~/x> <a?b> <[ab]> <{a,b}>"]),
        ("sh -c 'rm x; id'", ["sh -c rm x; id", "rm x", "id"]),
        ("sudo bash -lc \"rm x\"", ["sudo bash -lc rm x", "rm x"]),
        ("X=1 eval rm x", ["X=1 eval rm x", "rm x"]),
        ("", []),
    ],
)  # fmt: skip
def test_every_program_of_a_command_is_found(text: str, found: list[str]) -> None:
    assert sorted(programs(text)) == sorted(found)


@pytest.mark.parametrize(
    "text",
    [
        *("if a; then b; fi", "for x in a; do b; done", "while a; do b; done", "{ a; }", "(a; b)", "! a"),
        *("f() { rm x; }", "function f { a; }", "[[ -f a ]]", "case a in b) c;; esac", "a=(b c)"),
        *("cat <<EOF\nx\nEOF", "echo $((1+1))", "echo ${x:-$(rm y)}", "echo $'a'", "echo $[1]"),
        *(
            "echo 'a",
            'echo "a',
            "echo `a",
            "echo $(a",
            "echo a\\",
            "a >",
            "a > > b",
            "a )",
            "git status # rm",
        ),
        *("echo `a \\`b\\``", 'bash -c "$X"', "eval $X", "a\0b", "x" * 30_000),
    ],
)
def test_what_the_parser_does_not_know_makes_a_command_unclear(text: str) -> None:
    assert not parse_command(text).is_clear


def test_deeply_nested_commands_are_unclear() -> None:
    assert not parse_command("$(" * 50 + "a" + ")" * 50).is_clear


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a > b", [("b", True, True)]),
        ("a >b 2>>c", [("b", True, True), ("c", True, True)]),
        ("a &> b", [("b", True, True)]),
        ("a &>> b", [("b", True, True)]),
        ("a >| b", [("b", True, True)]),
        ("a >& b", [("b", True, True)]),
        ("a <> b", [("b", True, True)]),
        ("a < b", [("b", False, True)]),
        ("a > $X", [("$X", True, False)]),
        ("echo $(a > b)", [("b", True, True)]),
        ("a > /dev/null 2>&1 <&- <<< b", []),
        ("echo 2 > b", [("b", True, True)]),
    ],
)
def test_every_file_of_a_redirection_is_found(text: str, found: list[tuple[str, bool, bool]]) -> None:
    parsed = parse_command(text)
    assert parsed.is_clear
    assert [(one.file.text, one.writes, one.file.is_literal) for one in parsed.redirections] == found


def test_the_number_of_a_descriptor_is_no_argument() -> None:
    assert programs("a 2>&1") == ["a"]
    assert programs("echo 2 > b") == ["echo 2"]
