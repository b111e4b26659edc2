"""`/relay/v1/policies/evaluate`: what policies would do, and why, and nothing happens."""

from typing import Any

import pytest

from placet.errors import CaseNotFound, ValidationFailed
from tests.relay.api.policy_desk import PolicyDesk
from tests.relay.policies.samples import regex_draft

pytestmark = pytest.mark.anyio


async def in_force(desk: PolicyDesk, *drafts: Any, level: str = "TENANT", **scope: str) -> list[str]:
    ids = [(await desk.ask("POST", "/policies", draft))["policyId"] for draft in drafts]
    entries = [{"orderIndex": place, "policy": {"policyId": one}} for place, one in enumerate(ids)]
    group = await desk.ask("POST", "/policy-groups", {"name": "g", "policies": entries})
    await desk.ask("POST", "/policy-bindings", {"groupId": group["id"], "bindingLevel": level, **scope})
    return ids


async def tried(desk: PolicyDesk, **asked: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await desk.ask("POST", "/policies/evaluate", asked)
    return answer


async def test_it_says_for_each_leg_what_would_happen_and_why(desk: PolicyDesk):
    legs = {"requestToSink": True}
    (masks, _, _) = await in_force(
        desk,
        regex_draft("key-[0-9]+", "MASK", name="Mask keys", legs=legs),
        regex_draft("weather", "LOG", name="Weather", legs={"responseFromSink": True}),
        regex_draft("never", "BLOCK", name="Never", legs=legs),
    )
    found = await tried(desk, text="use key-123")
    assert found["outcome"] == "MASK"
    assert [(leg["leg"], leg["outcome"]) for leg in found["legs"]] == [
        ("requestFromSource", "PASS"),
        ("requestToSink", "MASK"),
        ("responseFromSink", "PASS"),
        ("responseToSource", "PASS"),
    ]
    (leg,) = (await tried(desk, text="use key-123", legs=["requestToSink"]))["legs"]
    named = {"policyId": masks, "version": "1", "name": "Mask keys", "action": "MASK", "level": "TENANT"}
    assert (leg["decidedBy"], leg["matched"]) == (named, [named])
    assert leg["reason"] == "Mask keys found something, and its action is MASK."
    assert [one["name"] for one in leg["clean"]] == ["Never"]
    assert leg["text"] == "use [MASKED:REGEX]"
    (finding,) = leg["findings"]
    assert (finding["path"], finding["start"], finding["end"], finding["text"]) == (
        "message.parts[0].text",
        4,
        11,
        "key-123",
    )


async def test_a_whole_message_is_shown_as_it_would_go_on(desk: PolicyDesk):
    await in_force(desk, regex_draft("secret", "MASK"))
    message = {
        "messageId": "m1",
        "role": "ROLE_USER",
        "parts": [{"text": "sec"}, {"text": "ret"}, {"data": {"note": "a secret", "n": 1}}, {"raw": "AAAA"}],
    }
    (leg,) = (await tried(desk, message=message, legs=["requestToSink"]))["legs"]
    parts = leg["forwarded"]["parts"]
    assert parts[2] == {"data": {"note": "a [MASKED:REGEX]", "n": 1}}
    assert "sec" not in parts[0]["text"] + parts[1]["text"]
    assert leg["forwarded"]["messageId"] == "m1"
    assert leg["opaque"] == ["message.parts[3].raw"]
    assert leg["text"] is None


async def test_a_file_that_nobody_can_read_is_held_unless_policies_only_note(desk: PolicyDesk):
    await in_force(desk, regex_draft("secret", "MASK", name="Masks"), regex_draft("x", "LOG", name="Logs"))
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"raw": "AAAA"}]}
    (leg,) = (await tried(desk, message=message, legs=["requestToSink"]))["legs"]
    assert (leg["outcome"], leg["decidedBy"]["name"]) == ("HOLD", "Masks")
    assert leg["reason"] == "Masks could not be checked: there is a file in it that is no text."
    assert [one["name"] for one in leg["unchecked"]] == ["Masks"]
    noting = regex_draft("secret", "WARN", name="Notes")
    alone = await tried(desk, message=message, policy=noting, alone=True)
    assert alone["outcome"] == "PASS"


async def test_a_task_is_looked_at_as_an_answer(desk: PolicyDesk):
    await in_force(desk, regex_draft("secret", "BLOCK"))
    task = {
        "id": "t1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a", "parts": [{"text": "the secret"}]}],
        "history": [{"role": "ROLE_USER", "parts": [{"text": "tell me a secret"}]}],
    }
    found = await tried(desk, task=task)
    assert [leg["leg"] for leg in found["legs"]] == ["responseFromSink", "responseToSource"]
    assert [one["path"] for one in found["legs"][0]["findings"]] == ["artifacts[0].parts[0].text"]
    assert found["legs"][0]["forwarded"] is None
    with pytest.raises(ValidationFailed, match="a task is an answer"):
        await tried(desk, task=task, legs=["requestToSink"])


async def test_only_what_covers_source_and_sink_applies(desk: PolicyDesk):
    await in_force(
        desk, regex_draft("x", "BLOCK"), level="SUBSCRIPTION", sourceAgentId="olga", sinkAgentId="hotel"
    )
    assert (await tried(desk, text="x"))["outcome"] == "PASS"
    assert (await tried(desk, text="x", sourceUserId="olga", sinkAgentId="hotel"))["outcome"] == "BLOCK"
    assert (await tried(desk, text="x", sourceAgentId="hotel", sinkAgentId="olga"))["outcome"] == "PASS"


async def test_an_unsaved_policy_is_tried_beside_what_is_in_force_or_alone(desk: PolicyDesk):
    await in_force(desk, regex_draft("secret", "BLOCK", name="Saved"))
    draft = regex_draft("sec", "HUMAN_REVIEW_REQUIRED", name="New")
    (both,) = (await tried(desk, text="secret", policy=draft, legs=["requestToSink"]))["legs"]
    assert (both["outcome"], both["decidedBy"]["name"]) == ("BLOCK", "Saved")
    assert [one["name"] for one in both["matched"]] == ["Saved", "New"]
    alone = await tried(desk, text="secret", policy=draft, alone=True)
    assert (alone["outcome"], alone["legs"][0]["decidedBy"]["policyId"]) == ("HOLD", "unsaved")
    assert (await desk.ask("GET", "/policies"))["totalElements"] == 1


async def test_an_earlier_version_is_tried_by_its_name(desk: PolicyDesk):
    (saved,) = await in_force(desk, regex_draft("old", "WARN"))
    await desk.ask("PUT", f"/policies/{saved}", regex_draft("new", "WARN"))
    old = {"policyId": saved, "version": "1"}
    assert (await tried(desk, text="old", policy=old, alone=True))["outcome"] == "WARN"
    assert (await tried(desk, text="old", policy={"policyId": saved}, alone=True))["outcome"] == "PASS"
    with pytest.raises(CaseNotFound):
        await tried(desk, text="old", policy={"policyId": saved, "version": "3"})
    with pytest.raises(ValidationFailed):
        await tried(desk, text="old", policy={"policyId": 4})


async def test_what_could_not_be_checked_is_named_and_holds(desk: PolicyDesk):
    slow = regex_draft("(?=(a+)+$)b?a", "LOG", name="Slow", legs={"requestToSink": True})
    found = await tried(desk, text="a" * 3_000 + "b", policy=slow, legs=["requestToSink"])
    (leg,) = found["legs"]
    assert (found["outcome"], leg["unchecked"][0]["name"]) == ("HOLD", "Slow")
    assert leg["reason"].startswith("Slow could not be checked: ")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of text, message and task"),
    ({"text": "x", "message": {}}, "exactly one of text, message and task"),
    ({"text": "x", "legs": ["sideways"]}, "legs"),
    ({"text": "x", "alone": True}, "there is nothing to try"),
    ({"text": "x", "sourceAgentId": "a", "sourceUserId": "b"}, "exclude each other"),
    ({"text": "x", "policy": regex_draft("(")}, "policy.config.pattern.regex"),
    ({"text": "x", "policy": regex_draft("x", legs={})}, "enables no leg"),
]


@pytest.mark.parametrize(("asked", "said"), WRONG)
async def test_what_cannot_be_tried_is_refused(desk: PolicyDesk, asked: dict[str, Any], said: str):
    with pytest.raises(ValidationFailed) as refused:
        await tried(desk, **asked)
    assert said in refused.value.message


async def test_a_message_nested_too_deep_is_refused(desk: PolicyDesk):
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValidationFailed, match="cannot be looked at"):
        await tried(desk, message={"parts": [{"data": deep}]})


async def test_a_message_without_texts_passes_as_it_is(desk: PolicyDesk):
    await in_force(desk, regex_draft("x", "BLOCK"))
    found = await tried(desk, message={})
    assert (found["outcome"], found["legs"][0]["forwarded"]) == ("PASS", {})


async def test_names_that_would_become_one_are_told(desk: PolicyDesk):
    masks = regex_draft("k[12]", "MASK")
    with pytest.raises(ValidationFailed, match="cannot be masked"):
        await tried(desk, message={"parts": [{"data": {"k1": 1, "k2": 2}}]}, policy=masks, alone=True)


async def test_the_audit_says_that_somebody_tried_and_not_what(desk: PolicyDesk):
    await tried(desk, text="my secret", policy=regex_draft("secret"), legs=["requestToSink"])
    (event,) = await desk.events()
    assert event["auditType"] == "POLICY_LIFECYCLE"
    assert event["metadata"] == {
        "operation": "EVALUATED",
        "outcome": "BLOCK",
        "policyName": "No secret",
        "legs": {"requestToSink": "BLOCK"},
    }
    assert "my secret" not in str(event)
