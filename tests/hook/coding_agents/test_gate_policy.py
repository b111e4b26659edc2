"""The policy of `placet gate`: deny wins, and a command is allowed only if every part of it is."""

from typing import Any

import pytest

from placet.errors import SettingsError
from placet.hook.coding_agents.claude_code import CODING_AGENT
from placet.hook.coding_agents.gate_policy import evaluate, matches_glob, parse_gate_policy
from placet.hook.coding_agents.host_calls import PROBE_TOOL, HostCall
from tests.hook.coding_agents.hook_input import build_input

GIT = """
[[allow]]
tool = "Bash"
command = ["git status", "git diff *", "ls *", "id"]

[[allow]]
tool = ["Write", "Read", "Edit"]
path = ["notes/**", "~/scratch/*"]

[[ask]]
command = "git push *"

[[deny]]
command = ["rm *", "git push --force *"]
reason = "Ask me to do it."
"""
SECRETS = f'{GIT}\n[[deny]]\npath = "**/.env"'


def call(tool: str, **arguments: Any) -> HostCall:
    return CODING_AGENT.read_call("PreToolUse", build_input("PreToolUse", tool, arguments))


def effect(policy: str, tool: str, **arguments: Any) -> str | None:
    return evaluate(parse_gate_policy(policy), call(tool, **arguments), home="/srv/home").effect


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", "allow"),
        ("git diff", "allow"),
        ("git diff --stat HEAD", "allow"),
        ("git diff $X", "allow"),
        ("git status && git diff | ls", "allow"),
        ("git diff > notes/a.txt", "allow"),
        ("git diff 2> /dev/null", "allow"),
        ("git diff $(id)", "allow"),
        ("git status --short", None),
        ("git statusx", None),
        ("/tmpx/git status", None),
        ("PATH=. git status", None),
        ("git diff > elsewhere", None),
        ("git diff > notes/../elsewhere", None),
        ("ls && cd notes && git diff > notes/a", None),
        ("git diff && make", None),
        ("git diff $(make)", None),
        ("git diff <(make)", None),
        ("git push origin", "ask"),
        ("sudo git push origin", "ask"),
        ("$X push", "ask"),
        ("if git diff; then make; fi", "ask"),
        ("git diff 'x", "ask"),
        ("rm x", "deny"),
        ("git status && rm x", "deny"),
        ("git status $(rm x)", "deny"),
        ("/bin/rm x", "deny"),
        ("A=1 sudo -u root rm -rf x", "deny"),
        ("bash -c 'rm x'", "deny"),
        ("echo x | xargs rm", "deny"),
        ("git push --force origin", "deny"),
        ("cat $X", None),
    ],
)
def test_commands(command: str, expected: str | None) -> None:
    assert effect(GIT, "Bash", command=command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat .env", "deny"),
        ("echo x > config/.env", "deny"),
        ("cat < .env", "deny"),
        ("echo x > $X", "ask"),
        ("cat $X", "ask"),
        ("git diff", "allow"),
    ],
)
def test_a_denied_path_counts_in_commands_too(command: str, expected: str) -> None:
    assert effect(SECRETS, "Bash", command=command) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/project/notes/a/b.txt", "allow"),
        ("notes/a.txt", "allow"),
        ("/srv/home/scratch/a.txt", "allow"),
        ("/srv/home/scratch/a/b.txt", None),
        ("/srv/project/notes/../a.txt", None),
        ("/srv/project/a.txt", None),
        ("notes/.env", "deny"),
    ],
)
def test_paths(path: str, expected: str | None) -> None:
    assert effect(SECRETS, "Write", file_path=path, content="x") == expected


def test_a_link_out_of_an_allowed_folder_is_not_allowed() -> None:
    written = call("Write", file_path="notes/link", content="x")
    policy = parse_gate_policy(SECRETS)
    assert evaluate(policy, written, find_real_path=lambda path: "/etc/passwd").effect is None
    assert evaluate(policy, written, find_real_path=lambda path: "/srv/.env").effect == "deny"
    redirected = call("Bash", command="git diff > notes/link")
    assert evaluate(policy, redirected, find_real_path=lambda path: "/etc/passwd").effect is None


def test_a_working_directory_with_stars_in_its_name_is_no_pattern() -> None:
    policy = parse_gate_policy('[[allow]]\ntool = "Write"\npath = "notes/*"')
    content = build_input("PreToolUse", "Write", {"file_path": "/srv/ab/notes/x"}, cwd="/srv/*")
    assert evaluate(policy, CODING_AGENT.read_call("PreToolUse", content)).effect is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ('[[allow]]\ntool = "*"', "allow"),
        ('[[allow]]\ntool = "mcp__github__*"', "allow"),
        ('[[allow]]\ntool = "mcp__github__*"\ncwd = "/srv/**"', "allow"),
        ('[[allow]]\ntool = "mcp__github__*"\ncwd = "/opt/**"', None),
        ('[[allow]]\ntool = "mcp__github__*"\npath = "/srv/**"', None),
        ('[[allow]]\ntool = "mcp__github__*"\ncommand = "*"', None),
        ('[[allow]]\ntool = "*"\n[[ask]]\ntool = "mcp__*"', "ask"),
        ('[[allow]]\ntool = "*"\n[[ask]]\ntool = "*"\n[[deny]]\ntool = "mcp__*"', "deny"),
        ("", None),
    ],
)
def test_tools_and_working_directories(policy: str, expected: str | None) -> None:
    assert effect(policy, "mcp__github__create_issue", title="x") == expected


def test_a_question_or_a_plan_is_never_allowed_without_a_person() -> None:
    everything = '[[allow]]\ntool = "*"'
    questions = [{"question": "Which?", "options": [{"label": "A"}]}]
    assert effect(everything, "AskUserQuestion", questions=questions) is None
    assert effect(everything, "ExitPlanMode", plan="Do it") is None


def test_a_probe_is_always_asked() -> None:
    assert effect('[[allow]]\ntool = "*"', PROBE_TOOL) == "ask"


@pytest.mark.parametrize(
    ("pattern", "text", "is_path", "expected"),
    [
        ("", "", False, True),
        ("*", "", False, True),
        ("*", "a/b", False, True),
        ("*", "a/b", True, False),
        ("**", "a/b", True, True),
        ("a*c", "abbc", False, True),
        ("a*c", "abbcd", False, False),
        ("*a*b*", "xaxbx", False, True),
        ("*a*b*", "xbxax", False, False),
        ("a/*/c", "a/b/c", True, True),
        ("a/*/c", "a/b/b/c", True, False),
        ("a/**/c", "a/b/b/c", True, True),
        ("**/a*b/c", "x/ab/d/axb/c", True, True),
        ("**/a*b/c", "x/a/b/c", True, False),
        ("**/.env", "/.env", True, True),
        ("a.c", "abc", False, False),
        ("a\n*", "a\nb", False, True),
    ],
)
def test_patterns(pattern: str, text: str, is_path: bool, expected: bool) -> None:
    assert matches_glob(pattern, text, is_path=is_path) == expected


def test_a_hostile_call_does_not_keep_the_gate_busy() -> None:
    """A matcher or parser that tries all ways would not end within the time that a test may take."""
    stars = parse_gate_policy(f'[[deny]]\ntool = "{"*a" * 20}*b"\n[[deny]]\ncommand = "{"*a" * 20}*b"')
    assert evaluate(stars, call("a" * 10_000)).effect is None
    assert evaluate(stars, call("Bash", command="a" * 10_000)).effect is None
    for words in ("sudo eval ", "eval ", "sudo sh -c ", "$(", "`", "sudo "):
        assert evaluate(stars, call("Bash", command=words * 1_500 + "x")).effect != "allow"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[allow", "not valid TOML"),
        ("alow = 1", "unknown alow"),
        ('[[allow]]\ntol = "x"', "allow rule 1: unknown tol. Use tool"),
        ("[[deny]]\n", "deny rule 1 is about nothing"),
        ("[[deny]]\ntool = []", "tool must be a text or a list"),
        ("[[deny]]\ntool = [1]", "tool must hold texts"),
        ("[[deny]]\ntool = 1", "tool must be a text or a list"),
        ('[deny]\ntool = "x"', "write rules as [[deny]] tables"),
        ('[[allow]]\ncommand = "a"\npath = "b"', "use command or path, not both"),
        ("server = 1", "server must be a text"),
    ],
)
def test_a_policy_with_a_mistake_is_refused(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match="policy") as refused:
        parse_gate_policy(text)
    assert said in refused.value.message
