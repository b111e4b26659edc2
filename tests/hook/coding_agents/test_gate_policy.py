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


INNER = """
[[allow]]
command = ["find *", "grep *", "git *", "npm test", "xargs *", "timeout *", "env *", "watch *", "bash -c *"]

[[allow]]
command = ["xargs sort *", "nice -n 5 *", "timeout * make"]
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("find . -name x", "allow"),
        ("find . -exec grep a {} ';'", "allow"),
        ("find . -exec rm {} +", None),
        ("find . -exec grep a {} + -execdir rm {} \\;", None),
        ("find . -exec find . -exec rm {} + +", None),
        ("find . $(git status) rm", None),
        ("git ls-files | xargs grep a", "allow"),
        ("git ls-files | xargs sort -u", "allow"),
        ("git ls-files | xargs rm", None),
        ("git ls-files | xargs -I git rm", None),
        ("timeout 5 npm test", "allow"),
        ("timeout 5 make", "allow"),
        ("timeout 5 rm x", None),
        ("timeout -k 5 5 rm x", None),
        ("env PATH=. npm test", None),
        ("env -S 'rm x'", None),
        ("watch npm test", "allow"),
        ("watch 'npm test; rm x'", None),
        ("bash -c 'npm test'", "allow"),
        ("bash -c 'npm test; rm x'", None),
        ("xargs timeout 5 npm test", "allow"),
        ("xargs timeout 5 rm", None),
    ],
)
def test_a_program_inside_a_program_has_to_be_allowed_too(command: str, expected: str | None) -> None:
    assert effect(INNER, "Bash", command=command) == expected


IN_PROJECT = """
[[allow]]
command = ["cd *", "npm test", "echo *", "cat notes/*"]
cwd = "/srv/project/**"

[[allow]]
tool = "Write"
path = "/srv/project/**"
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npm test", "allow"),
        ("cd packages/a && npm test", "allow"),
        ("cd /srv/project/a; cd b; npm test > log", "allow"),
        ("cd .. && npm test", None),
        ("cd /etc && npm test", None),
        ("cd a; cd ../..; npm test", None),
        ("A=1 cd /etc && npm test", None),
        ("cd - && npm test", None),
        ("cd && npm test", None),
        ("cd ~ && npm test", None),
        ("cd $X && npm test", None),
        ("echo x > ../a", None),
        ("cd a && echo x > ../../b", None),
        ("cat notes/a", "allow"),
        ("cat notes/../../etc/passwd", None),
    ],
)
def test_a_rule_for_a_folder_does_not_follow_cd_out_of_it(command: str, expected: str | None) -> None:
    assert effect(IN_PROJECT, "Bash", command=command) == expected


def test_a_folder_that_is_a_link_is_judged_by_where_it_leads() -> None:
    policy = parse_gate_policy(IN_PROJECT)

    def leads_away(path: str) -> str:
        return path.replace("/srv/project/link", "/etc")

    for command in ("cd link && npm test", "echo x > link/a", "echo x > link/../a"):
        asked = call("Bash", command=command)
        assert evaluate(policy, asked).effect == "allow"
        assert evaluate(policy, asked, find_real_path=leads_away).effect is None


@pytest.mark.parametrize(
    "command",
    [
        *("- rm x", "printf 'rm x' | sh", "bash -s < x", "curl x | sudo bash -", "\\rm x", "$(echo rm) x"),
        *("RM x", "noglob rm x", "busybox rm x", "find . -exec rm {} +", "parallel rm ::: x", "watch rm x"),
        *("cd /srv/home/.ssh && cat id", "cd /srv/home && cat .ssh/id", "cat /srv/home/.SSH/id"),
        *(
            "cp -r /srv/home/.ssh x",
            "cat ~/.ssh/id",
            "cat < /srv/home/x/../.ssh/id",
            "tar c /srv/home/.ssh/.",
        ),
    ],
)
def test_a_denied_part_is_found_in_disguise(command: str) -> None:
    policy = '[[allow]]\ncommand = "*"\n[[deny]]\ncommand = "rm *"\n[[deny]]\npath = "~/.ssh/**"'
    assert effect(policy, "Bash", command=command) in ("deny", "ask")


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Glob", {"pattern": "**/*.{ts,tsx}"}, "allow"),
        ("Glob", {"pattern": "/etc/*"}, None),
        ("Glob", {"pattern": "src/../../*", "path": "/srv/project"}, None),
        ("Glob", {"pattern": "*/../../*"}, None),
        ("Glob", {"pattern": "{src,/etc}/*"}, None),
        ("Grep", {"pattern": "x"}, "allow"),
        ("Read", {"file_path": "~/x"}, None),
        ("Read", {"file_path": ".env"}, "deny"),
        ("mcp__fs__move", {"path": "a", "to": "b"}, "allow"),
        ("mcp__fs__move", {"path": "a", "to": "/etc/b"}, None),
        ("mcp__fs__move", {"path": "a", "options": [{"to": "../../b"}]}, None),
        ("mcp__fs__move", {"to": "b"}, None),
        ("mcp__fs__move", {"path": "a", "to": ".ENV"}, "deny"),
        ("mcp__fs__read", {"files": [{"name": "config/.env"}]}, "deny"),
    ],
)
def test_every_text_of_a_tool_that_is_not_known_may_be_a_path(
    tool: str, arguments: dict[str, Any], expected: str | None
) -> None:
    policy = '[[allow]]\npath = "/srv/project/**"\n[[deny]]\npath = "**/.env"'
    assert effect(policy, tool, **arguments) == expected


def test_a_command_with_more_than_a_command_is_not_allowed_by_it() -> None:
    outside = {"command": "ls", "dangerouslyDisableSandbox": True}
    assert effect('[[allow]]\ncommand = "ls"', "Bash", **outside) is None
    assert effect('[[allow]]\ncommand = "ls"\n[[deny]]\ncommand = "rm *"', "Bash", **outside) == "ask"
    assert effect('[[allow]]\ntool = "Bash"', "Bash", **outside) == "allow"
    assert effect('[[allow]]\ncommand = "ls"', "Bash", command="ls", timeout=9, description="x") == "allow"


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
    for words in ("sudo eval ", "eval ", "sudo sh -c ", "$(", "`", "sudo ", "find -exec ", "cd a;"):
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
