"""A grant covers the calls its person had in mind, as often and as long as they said."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.cases.grant import build_grant_agent_name, find_covering_grant
from placet.cases.grant_terms import MAX_GRANTS, MAX_PATTERN_BYTES, is_grantable, read_terms
from placet.errors import InvalidSubmission
from placet.testing.clock import DAYBREAK
from placet.testing.samples import sample_grant

TICK = timedelta(microseconds=1)
GRANT = sample_grant("review_1")
MAIL = {"to": "ada@acme.example", "copies": 1}
CALL: dict[str, Any] = {"id": "call_1", "name": "send_email", "arguments": MAIL, "high_risk": False}
APPROVED = {"call_1": {"decision": "approve"}}
ASKED: dict[str, Any] = {
    "call_id": "call_1",
    "patterns": {"to": {"glob": "*@acme.example"}, "copies": {"exact": 1}},
    "uses": 5,
    "for": "1h",
}


def covers(arguments: dict[str, Any], **changes: Any) -> bool:
    asked: dict[str, Any] = {
        "tool": "send_email",
        "agent": "mailer",
        "now": DAYBREAK,
        "grant": GRANT,
    } | changes
    grant = asked.pop("grant")
    return bool(grant.covers(asked.pop("tool"), arguments, **asked))


def test_a_call_is_covered_if_every_argument_fits() -> None:
    assert covers(MAIL)
    assert covers({"to": "eve@acme.example", "copies": 1})
    assert not covers({"to": "eve@evil.example", "copies": 1})
    assert not covers({"to": "ada@acme.example", "copies": 2})


def test_an_argument_that_the_grant_does_not_name_is_not_covered() -> None:
    assert not covers({**MAIL, "bcc": "eve@evil.example"})
    assert not covers({**MAIL, "bcc": None})


def test_a_call_that_leaves_an_argument_out_is_not_covered() -> None:
    assert not covers({"to": "ada@acme.example"})
    assert not covers({})


def test_another_tool_or_agent_is_not_covered() -> None:
    assert not covers(MAIL, tool="send_email_now")
    assert not covers(MAIL, agent="other")
    assert not covers(MAIL, agent=None)


def test_a_grant_ends_at_its_moment_and_not_before() -> None:
    assert covers(MAIL, now=GRANT.expires_at - TICK)
    assert not covers(MAIL, now=GRANT.expires_at)
    assert GRANT.state(GRANT.expires_at) == "expired"


def test_a_grant_is_used_up_after_its_last_use() -> None:
    last = replace(GRANT, used=4)
    assert covers(MAIL, grant=last)
    assert not covers(MAIL, grant=last.spend())
    assert last.spend().state(DAYBREAK) == "used_up"


def test_a_revoked_grant_covers_nothing_and_the_first_revocation_stands() -> None:
    revoked = GRANT.revoke(by="key:acme", now=DAYBREAK)
    assert not covers(MAIL, grant=revoked)
    assert revoked.revoke(by="other", now=DAYBREAK + TICK) == revoked


def test_an_erased_grant_covers_nothing() -> None:
    erased = replace(GRANT, patterns=None)
    assert not covers(MAIL, grant=erased)
    assert erased.state(DAYBREAK) == "erased"


def test_of_several_grants_the_one_that_ends_first_is_spent() -> None:
    soon = replace(GRANT, id="soon", expires_at=DAYBREAK + timedelta(hours=1))
    over = replace(GRANT, id="over", used=5)
    found = find_covering_grant([GRANT, over, soon], "send_email", MAIL, agent="mailer", now=DAYBREAK)
    assert found is soon
    assert find_covering_grant([over], "send_email", MAIL, agent="mailer", now=DAYBREAK) is None


def read(asked: dict[str, Any] | None = None, **changes: Any) -> Any:
    call = CALL | changes.pop("call", {})
    decisions = changes.pop("decisions", APPROVED)
    (terms,) = read_terms([(ASKED if asked is None else asked) | changes], [call], decisions)
    return terms


def test_what_is_asked_for_is_what_is_granted() -> None:
    terms = read()
    assert terms.tool == "send_email"
    assert terms.lasts_for == timedelta(hours=1)
    assert terms.to_dict() == ASKED


def test_the_agent_inside_others_is_the_one_that_is_allowed() -> None:
    path = read(call={"path": ("writer", "checker")}).path
    assert build_grant_agent_name("editor", path) == "editor>writer>checker"
    assert build_grant_agent_name("editor") == "editor"
    assert build_grant_agent_name(None, path) is None


def test_an_edited_call_is_granted_as_it_was_edited() -> None:
    edit = {"call_1": {"decision": "edit", "arguments": {"to": "eve@other.example", "copies": 1}}}
    assert read(decisions=edit, patterns={"to": {"glob": "*@other.example"}, "copies": {"exact": 1}})
    with pytest.raises(InvalidSubmission, match="must cover the call"):
        read(decisions=edit)


def test_a_call_of_high_risk_is_never_granted() -> None:
    for risk in (True, None, 1, "no"):
        with pytest.raises(InvalidSubmission, match="high risk"):
            read(call={"high_risk": risk})
        assert not is_grantable(CALL | {"high_risk": risk})
    assert is_grantable(CALL)


@pytest.mark.parametrize(
    "decision", [{"decision": "reject"}, {"decision": "respond"}, {}, {"decision": "edit", "name": "rm"}]
)
def test_only_what_runs_is_granted(decision: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission, match="let run"):
        read(decisions={"call_1": decision})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"uses": 0}, "between 1 and 1,000"),
        ({"uses": 1001}, "between 1 and 1,000"),
        ({"uses": True}, "between 1 and 1,000"),
        ({"uses": 2.0}, "between 1 and 1,000"),
        ({"uses": "5"}, "between 1 and 1,000"),
        ({"for": "8d"}, "7 days"),
        ({"for": "59s"}, "a minute"),
        ({"for": "soon"}, "duration"),
        ({"for": None}, "duration"),
        ({"patterns": None}, "object"),
        ({"patterns": {}}, "must name exactly the arguments"),
        ({"patterns": {"to": {"glob": "*@acme.example"}}}, "must name exactly the arguments"),
        ({"patterns": ASKED["patterns"] | {"bcc": {"glob": "**"}}}, "must name exactly the arguments"),
        ({"patterns": {"to": {"regex": ".*"}, "copies": {"exact": 1}}}, "either exact"),
        ({"patterns": {"to": {"exact": "eve@acme.example"}, "copies": {"exact": 1}}}, "must cover"),
        ({"patterns": {"to": {"glob": "**"}, "copies": {"exact": True}}}, "must cover"),
        ({"call_id": "call_2"}, "not a call of this case"),
        ({"call_id": ["call_1"]}, "not a call of this case"),
        ({"tool": "rm"}, "must have exactly the members"),
    ],
)
def test_terms_that_do_not_fit_are_refused_with_what_is_wrong(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSubmission, match=told):
        read(**changes)


def test_a_whole_call_of_anything_is_never_granted() -> None:
    call = {"arguments": {"command": "ls"}}
    with pytest.raises(InvalidSubmission, match="nearly any call"):
        read(call=call, patterns={"command": {"glob": "**"}})
    with pytest.raises(InvalidSubmission, match="nearly any call"):
        read(call=call, patterns={"command": {"glob": "l*"}})
    assert read(call={"arguments": {}}, patterns={}).patterns == {}


def test_huge_arguments_are_not_granted() -> None:
    text = "x" * MAX_PATTERN_BYTES
    with pytest.raises(InvalidSubmission, match="too large"):
        read(call={"arguments": {"text": text}}, patterns={"text": {"exact": text}})
    assert not is_grantable(CALL | {"arguments": {"text": text}})


def test_a_call_is_granted_once_and_an_answer_gives_only_so_many() -> None:
    with pytest.raises(InvalidSubmission, match="two grants"):
        read_terms([ASKED, ASKED], [CALL], APPROVED)
    with pytest.raises(InvalidSubmission, match="at most 50"):
        read_terms([ASKED] * (MAX_GRANTS + 1), [CALL], APPROVED)
    with pytest.raises(InvalidSubmission, match="list"):
        read_terms({"call_1": ASKED}, [CALL], APPROVED)
    with pytest.raises(InvalidSubmission, match="must have exactly the members"):
        read_terms(["all"], [CALL], APPROVED)


def test_the_page_is_told_which_call_it_is_about() -> None:
    with pytest.raises(InvalidSubmission) as refused:
        read(uses=0)
    assert refused.value.details["fields"].keys() == {"grant.call_1"}
