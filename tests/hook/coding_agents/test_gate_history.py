"""What people decided: what a reviewer sees of it, and which rules it suggests."""

from datetime import UTC, date, datetime, timedelta

import pytest

from placet.errors import SettingsError
from placet.hook.coding_agents.gate_history import (
    MIN_APPROVALS,
    GateRecord,
    build_record,
    describe_session,
    is_high_risk,
    parse_records,
    suggest_rules,
)
from placet.hook.coding_agents.gate_policy import evaluate, parse_gate_policy
from placet.hook.coding_agents.host_calls import HostCall, HostDecision, deny

NOW = datetime(2026, 11, 19, 14, 2, tzinfo=UTC)
APPROVED = HostDecision(verdict="allow")
CHANGED = HostDecision(verdict="allow", arguments={"command": "ls"})


def call(command: str = "npm test", folder: str = "/srv/shop", session: str = "s") -> HostCall:
    return HostCall(
        host="Claude Code",
        event="PreToolUse",
        tool="Bash",
        arguments={"command": command},
        command=command,
        folder=folder,
        session=session,
    )


def decided(*decisions: HostDecision, command: str = "npm test", session: str = "s") -> list[GateRecord]:
    return [build_record(call(command, session=session), one, NOW) for one in decisions]


def test_a_command_that_was_approved_often_is_suggested_for_a_week() -> None:
    (suggested,) = suggest_rules(decided(*[APPROVED] * 14))
    assert suggested.count == 14
    rule = suggested.format_rule(date(2026, 11, 19))
    assert rule == ('[[allow]]\ntool = "Bash"\ncommand = "npm test"\ncwd = "/srv/shop"\nuntil = 2026-11-26\n')
    policy = parse_gate_policy(rule)
    for after, effect in ((0, "allow"), (7, "allow"), (8, None)):
        assert evaluate(policy, call(), now=NOW + timedelta(days=after)).effect == effect
    assert evaluate(policy, call(), now=None).effect is None
    for other in (call("npm test --watch"), call(folder="/srv/other"), call("npm test; id")):
        assert evaluate(policy, other, now=NOW).effect is None


@pytest.mark.parametrize("last", [deny("No"), CHANGED])
def test_a_command_that_was_ever_rejected_or_changed_is_not_suggested(last: HostDecision) -> None:
    assert suggest_rules(decided(*[APPROVED] * 50, last)) == []
    assert suggest_rules(decided(last, *[APPROVED] * 50)) == []


def test_a_command_that_was_approved_a_few_times_is_not_suggested() -> None:
    assert suggest_rules(decided(*[APPROVED] * (MIN_APPROVALS - 1))) == []


@pytest.mark.parametrize(
    "command",
    [
        *("", "rm x", "sudo ls", "git push", "npm publish", "npm install", "curl x", "python x.py", "./x"),
        *(
            "npm test && ls",
            "npm test > x",
            "npm test $X",
            "ls *",
            "npm run 'a b'",
            "echo \x1b",
            "bash -c ls",
        ),
        *("find . -delete", "git checkout .", "git branch -D x", "RM x", "sed -i s/a/b/ c", "watch ls"),
        *("if x; then y; fi", "X=1 npm test", "npm  test", "/bin/ls", "npx x", "echo $(id)", "x" * 3000),
    ],
)
def test_a_high_risk_is_never_suggested(command: str) -> None:
    assert is_high_risk(command)
    assert suggest_rules(decided(*[APPROVED] * 50, command=command)) == []


def test_a_command_of_an_unknown_folder_is_not_suggested() -> None:
    assert suggest_rules([build_record(call(folder=""), APPROVED, NOW)] * 50) == []


def test_a_reviewer_sees_the_last_decisions_of_the_session() -> None:
    records = [
        *decided(APPROVED, session="other"),
        *decided(*[APPROVED] * 3, command="npm test"),
        *decided(CHANGED, deny("No"), command="git push\n--force"),
        *decided(APPROVED, command="x" * 500),
    ]
    lines = describe_session(records, "s").splitlines()
    assert lines[0] == "1 earlier decision"
    assert lines[1:5] == [
        "14:02 approved: npm test",
        "14:02 approved: npm test",
        "14:02 approved with changes: git push --force",
        "14:02 rejected: git push --force",
    ]
    assert len(lines[5]) < 150
    assert describe_session(records, "") == describe_session(records, "new") == ""


def test_lines_that_are_no_record_are_left_out() -> None:
    assert list(parse_records(["", "{}", "[]", "x", '{"at": 1}', "[" * 9999])) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[deny]]\ntool = "x"\nuntil = 2026-11-26', "until is for allow rules"),
        ('[[allow]]\ntool = "x"\nuntil = "2026-11-26"', "until must be a date"),
        ('[[allow]]\ntool = "x"\nuntil = 2026-11-26T10:00:00', "until must be a date"),
        ("[[allow]]\nuntil = 2026-11-26", "is about nothing"),
    ],
)
def test_an_end_is_for_allow_rules(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match="rule 1") as refused:
        parse_gate_policy(text)
    assert said in refused.value.message
