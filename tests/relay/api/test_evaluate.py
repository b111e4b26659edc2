"""`/relay/v1/policies/evaluate`: what policies would do, and why, and nothing happens."""

from typing import Any

import pytest

from placet.errors import CaseNotFound, ValidationFailed
from tests.relay.api.policy_api_client import PolicyApiClient
from tests.relay.policies.samples import build_regex_draft

pytestmark = pytest.mark.anyio


async def bind_drafts(
    policy_api: PolicyApiClient, *drafts: Any, level: str = "TENANT", **scope: str
) -> list[str]:
    ids = [(await policy_api.request("POST", "/policies", draft))["policyId"] for draft in drafts]
    entries = [{"orderIndex": place, "policy": {"policyId": one}} for place, one in enumerate(ids)]
    group = await policy_api.request("POST", "/policy-groups", {"name": "g", "policies": entries})
    await policy_api.request(
        "POST", "/policy-bindings", {"groupId": group["id"], "bindingLevel": level, **scope}
    )
    return ids


async def evaluate(policy_api: PolicyApiClient, **asked: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await policy_api.request("POST", "/policies/evaluate", asked)
    return answer


async def test_dry_run_reports_outcome_and_reason_per_leg(policy_api: PolicyApiClient):
    legs = {"requestToSink": True}
    (masks, _, _) = await bind_drafts(
        policy_api,
        build_regex_draft("key-[0-9]+", "MASK", name="Mask keys", legs=legs),
        build_regex_draft("weather", "LOG", name="Weather", legs={"responseFromSink": True}),
        build_regex_draft("never", "BLOCK", name="Never", legs=legs),
    )
    found = await evaluate(policy_api, text="use key-123")
    assert found["outcome"] == "MASK"
    assert [(leg["leg"], leg["outcome"]) for leg in found["legs"]] == [
        ("requestFromSource", "PASS"),
        ("requestToSink", "MASK"),
        ("responseFromSink", "PASS"),
        ("responseToSource", "PASS"),
    ]
    (leg,) = (await evaluate(policy_api, text="use key-123", legs=["requestToSink"]))["legs"]
    named = {"policyId": masks, "version": "1", "name": "Mask keys", "action": "MASK", "level": "TENANT"}
    assert (leg["decidedBy"], leg["matched"]) == (named, [named])
    assert leg["reason"] == "Mask keys matched, and its action is MASK."
    assert [one["name"] for one in leg["clean"]] == ["Never"]
    assert leg["text"] == "use [MASKED:REGEX]"
    (finding,) = leg["findings"]
    assert (finding["path"], finding["start"], finding["end"], finding["text"]) == (
        "message.parts[0].text",
        4,
        11,
        "key-123",
    )


async def test_dry_run_shows_the_message_as_forwarded(policy_api: PolicyApiClient):
    await bind_drafts(policy_api, build_regex_draft("secret", "MASK"))
    message = {
        "messageId": "m1",
        "role": "ROLE_USER",
        "parts": [{"text": "sec"}, {"text": "ret"}, {"data": {"note": "a secret", "n": 1}}, {"raw": "AAAA"}],
    }
    (leg,) = (await evaluate(policy_api, message=message, legs=["requestToSink"]))["legs"]
    parts = leg["forwarded"]["parts"]
    assert parts[2] == {"data": {"note": "a [MASKED:REGEX]", "n": 1}}
    assert "sec" not in parts[0]["text"] + parts[1]["text"]
    assert leg["forwarded"]["messageId"] == "m1"
    assert leg["unreadablePaths"] == ["message.parts[3].raw"]
    assert leg["text"] is None


async def test_unreadable_file_is_held_unless_policies_only_log(policy_api: PolicyApiClient):
    await bind_drafts(
        policy_api,
        build_regex_draft("secret", "MASK", name="Masks"),
        build_regex_draft("x", "LOG", name="Logs"),
    )
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"raw": "AAAA"}]}
    (leg,) = (await evaluate(policy_api, message=message, legs=["requestToSink"]))["legs"]
    assert (leg["outcome"], leg["decidedBy"]["name"]) == ("HOLD", "Masks")
    assert leg["reason"] == "Masks could not be checked: the message contains a file that is not text."
    assert [one["name"] for one in leg["unchecked"]] == ["Masks"]
    noting = build_regex_draft("secret", "WARN", name="Notes")
    alone = await evaluate(policy_api, message=message, policy=noting, policyOnly=True)
    assert alone["outcome"] == "PASS"


async def test_task_is_evaluated_as_a_reply(policy_api: PolicyApiClient):
    await bind_drafts(policy_api, build_regex_draft("secret", "BLOCK"))
    task = {
        "id": "t1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a", "parts": [{"text": "the secret"}]}],
        "history": [{"role": "ROLE_USER", "parts": [{"text": "tell me a secret"}]}],
    }
    found = await evaluate(policy_api, task=task)
    assert [leg["leg"] for leg in found["legs"]] == ["responseFromSink", "responseToSource"]
    assert [one["path"] for one in found["legs"][0]["findings"]] == ["artifacts[0].parts[0].text"]
    assert found["legs"][0]["forwarded"] is None
    with pytest.raises(ValidationFailed, match="a task is a response"):
        await evaluate(policy_api, task=task, legs=["requestToSink"])


async def test_only_policies_of_source_and_sink_apply(policy_api: PolicyApiClient):
    await bind_drafts(
        policy_api,
        build_regex_draft("x", "BLOCK"),
        level="SUBSCRIPTION",
        sourceAgentId="olga",
        sinkAgentId="hotel",
    )
    assert (await evaluate(policy_api, text="x"))["outcome"] == "PASS"
    assert (await evaluate(policy_api, text="x", sourceUserId="olga", sinkAgentId="hotel"))[
        "outcome"
    ] == "BLOCK"
    assert (await evaluate(policy_api, text="x", sourceAgentId="hotel", sinkAgentId="olga"))[
        "outcome"
    ] == "PASS"


async def test_unsaved_policy_is_evaluated_with_or_without_policies_in_force(policy_api: PolicyApiClient):
    await bind_drafts(policy_api, build_regex_draft("secret", "BLOCK", name="Saved"))
    draft = build_regex_draft("sec", "HUMAN_REVIEW_REQUIRED", name="New")
    (both,) = (await evaluate(policy_api, text="secret", policy=draft, legs=["requestToSink"]))["legs"]
    assert (both["outcome"], both["decidedBy"]["name"]) == ("BLOCK", "Saved")
    assert [one["name"] for one in both["matched"]] == ["Saved", "New"]
    alone = await evaluate(policy_api, text="secret", policy=draft, policyOnly=True)
    assert (alone["outcome"], alone["legs"][0]["decidedBy"]["policyId"]) == ("HOLD", "unsaved")
    assert (await policy_api.request("GET", "/policies"))["totalElements"] == 1


async def test_earlier_version_is_evaluated_by_number(policy_api: PolicyApiClient):
    (saved,) = await bind_drafts(policy_api, build_regex_draft("old", "WARN"))
    await policy_api.request("PUT", f"/policies/{saved}", build_regex_draft("new", "WARN"))
    old = {"policyId": saved, "version": "1"}
    assert (await evaluate(policy_api, text="old", policy=old, policyOnly=True))["outcome"] == "WARN"
    assert (await evaluate(policy_api, text="old", policy={"policyId": saved}, policyOnly=True))[
        "outcome"
    ] == "PASS"
    with pytest.raises(CaseNotFound):
        await evaluate(policy_api, text="old", policy={"policyId": saved, "version": "3"})
    with pytest.raises(ValidationFailed):
        await evaluate(policy_api, text="old", policy={"policyId": 4})


async def test_unchecked_policy_is_named_and_holds(policy_api: PolicyApiClient):
    slow = build_regex_draft("(?=(a+)+$)b?a", "LOG", name="Slow", legs={"requestToSink": True})
    found = await evaluate(policy_api, text="a" * 3_000 + "b", policy=slow, legs=["requestToSink"])
    (leg,) = found["legs"]
    assert (found["outcome"], leg["unchecked"][0]["name"]) == ("HOLD", "Slow")
    assert leg["reason"].startswith("Slow could not be checked: ")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of text, message and task"),
    ({"text": "x", "message": {}}, "exactly one of text, message and task"),
    ({"text": "x", "legs": ["sideways"]}, "legs"),
    ({"text": "x", "policyOnly": True}, "policyOnly evaluates only this policy"),
    ({"text": "x", "sourceAgentId": "a", "sourceUserId": "b"}, "exclude each other"),
    ({"text": "x", "policy": build_regex_draft("(")}, "policy.config.pattern.regex"),
    ({"text": "x", "policy": build_regex_draft("x", legs={})}, "enables no leg"),
]


@pytest.mark.parametrize(("asked", "said"), WRONG)
async def test_invalid_dry_run_is_refused(policy_api: PolicyApiClient, asked: dict[str, Any], said: str):
    with pytest.raises(ValidationFailed) as refused:
        await evaluate(policy_api, **asked)
    assert said in refused.value.message


async def test_a_message_nested_too_deep_is_refused(policy_api: PolicyApiClient):
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValidationFailed, match="cannot be inspected"):
        await evaluate(policy_api, message={"parts": [{"data": deep}]})


async def test_a_message_without_texts_passes_as_it_is(policy_api: PolicyApiClient):
    await bind_drafts(policy_api, build_regex_draft("x", "BLOCK"))
    found = await evaluate(policy_api, message={})
    assert (found["outcome"], found["legs"][0]["forwarded"]) == ("PASS", {})


async def test_colliding_masked_names_are_reported(policy_api: PolicyApiClient):
    masks = build_regex_draft("k[12]", "MASK")
    with pytest.raises(ValidationFailed, match="cannot be masked"):
        await evaluate(
            policy_api, message={"parts": [{"data": {"k1": 1, "k2": 2}}]}, policy=masks, policyOnly=True
        )


async def test_dry_run_is_audited_without_its_message(policy_api: PolicyApiClient):
    await evaluate(policy_api, text="my secret", policy=build_regex_draft("secret"), legs=["requestToSink"])
    (event,) = await policy_api.events()
    assert event["auditType"] == "POLICY_LIFECYCLE"
    assert event["metadata"] == {
        "operation": "EVALUATED",
        "outcome": "BLOCK",
        "policyName": "No secret",
        "legs": {"requestToSink": "BLOCK"},
    }
    assert "my secret" not in str(event)
