"""Opening a case: the response, what is stored, and which drafts are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from placet.cases.case import Subject
from placet.cases.events import find_broken_link
from placet.cases.tokens import digest_token
from placet.desk.case_limits import Limits
from placet.desk.draft import CaseDraft, draft_from
from placet.errors import InvalidForm, PlacetError, ValidationFailed
from placet.ports.store import Store
from placet.protocol.duration import parse_duration
from placet.protocol.versions import SPEC_VERSIONS
from placet.reviews.registry import REVIEW_TYPES
from placet.testing.clock import DAYBREAK
from placet.testing.desk import ACME, ANONYMOUS, DeskForTests, create_desk_for_tests
from tests.protocol.policies import policy

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
POLICY = msgspec.json.decode(msgspec.json.encode(policy()))


@pytest.mark.parametrize("type", [*REVIEW_TYPES, "x-seating-plan"])
async def test_every_type_opens_with_addresses_under_the_public_one(kit: DeskForTests, type: str) -> None:
    opened = await kit.open(type)
    hitl = opened.hitl
    assert hitl["type"] == type
    assert hitl["spec_version"] == "0.9"
    assert hitl["review_url"].startswith(f"https://placet.example/review/{opened.id}?token=")
    assert hitl["poll_url"] == f"https://placet.example/v1/reviews/{opened.id}/status"
    assert hitl["events_url"] == f"https://placet.example/v1/reviews/{opened.id}/events"
    assert await kit.poll(opened.id) == {
        "status": "pending",
        "case_id": opened.id,
        "created_at": hitl["created_at"],
        "expires_at": hitl["expires_at"],
    }


async def test_every_field_of_a_draft_comes_back_in_the_202(kit: DeskForTests) -> None:
    earlier = await kit.open()
    await kit.human(earlier).answer("edit", {"feedback": "shorter"})
    reminders = [DAYBREAK + 2 * HOUR, DAYBREAK + HOUR, DAYBREAK + HOUR]
    opened = await kit.open(
        prompt="Publish the notes?",
        message="Please look at the notes.",
        context={"artifact": {"title": "Notes"}, "version": 3},
        timeout="PT36H",
        default_action="reject",
        callback_url="https://agent.example/hooks",
        reminder_at=[moment.isoformat() for moment in reminders],
        inline_actions=["approve", "reject"],
        previous_case_id=earlier.id,
        surface={"format": "json-render", "version": "1.0"},
        verification_policy=POLICY,
        spec_version="0.8",
        service="Letters",
        agent="Scribe",
    )
    hitl = dict(opened.hitl)
    token = hitl.pop("submit_token")
    assert len(token) == 43
    assert token not in hitl.pop("review_url")
    assert hitl == {
        "spec_version": "0.8",
        "case_id": opened.id,
        "poll_url": f"https://placet.example/v1/reviews/{opened.id}/status",
        "events_url": f"https://placet.example/v1/reviews/{opened.id}/events",
        "submit_url": f"https://placet.example/v1/reviews/{opened.id}/respond",
        "callback_url": "https://agent.example/hooks",
        "type": "approval",
        "prompt": "Publish the notes?",
        "timeout": "PT36H",
        "default_action": "reject",
        "created_at": "2026-01-01T06:00:00Z",
        "expires_at": "2026-01-02T18:00:00Z",
        "context": {"artifact": {"title": "Notes"}, "version": 3},
        "reminder_at": ["2026-01-01T07:00:00Z", "2026-01-01T08:00:00Z"],
        "previous_case_id": earlier.id,
        "surface": {"format": "json-render", "version": "1.0"},
        "inline_actions": ["approve", "reject"],
        "verification_policy": POLICY,
    }
    assert msgspec.json.decode(opened.body)["message"] == "Please look at the notes."
    _, offer = await kit.human(opened).look()
    assert (offer.service, offer.agent) == ("Letters", "Scribe")


async def test_no_token_is_kept_only_its_digest(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=["approve"])
    human = kit.human(opened)
    case, offer = await human.look()
    kept = msgspec.json.encode([case, offer, await kit.store.list_events(opened.id)])
    assert human.submit_token is not None
    for token in (human.token, human.submit_token):
        assert token.encode() not in kept
    assert case.review_digests == (digest_token(human.token),)
    assert case.submit_digest == digest_token(human.submit_token)


async def test_a_case_without_inline_actions_has_no_submit_token(kit: DeskForTests) -> None:
    opened = await kit.open(inline_actions=None)
    assert not {"submit_url", "submit_token", "inline_actions"} & set(opened.hitl)
    case, _ = await kit.human(opened).look()
    assert case.submit_digest is None


async def test_omitted_fields_have_defaults(kit: DeskForTests) -> None:
    opened = await kit.desk.open(draft_from({"type": "approval", "prompt": "Go?"}), ACME)
    body = msgspec.json.decode(opened.body)
    assert body["message"] == "Go?"
    assert body["hitl"]["default_action"] == "skip"
    assert parse_duration(body["hitl"]["timeout"]) == timedelta(hours=24)
    assert body["hitl"]["expires_at"] == "2026-01-02T06:00:00Z"
    assert "context" not in body["hitl"]


@pytest.mark.parametrize(
    ("text", "length"),
    [("30m", HOUR / 2), ("24h", 24 * HOUR), ("7d", 168 * HOUR), ("P1DT12H", 36 * HOUR), ("1d12h", 36 * HOUR)],
)
async def test_a_timeout_is_read_in_every_notation(kit: DeskForTests, text: str, length: timedelta) -> None:
    opened = await kit.open(timeout=text)
    case = await kit.desk.get_owned_case(opened.id, ACME)
    assert case.expires_at == kit.clock() + length
    assert opened.hitl["timeout"] == text


async def test_the_longest_timeout_is_a_setting(store: Store) -> None:
    kit = create_desk_for_tests(store=store, limits=Limits(max_timeout_for=timedelta(days=30)))
    await kit.open(timeout="30d")
    with pytest.raises(ValidationFailed, match="30d"):
        await kit.open(timeout="31d")


async def test_reminders_in_other_time_zones_are_the_same_moments(kit: DeskForTests) -> None:
    opened = await kit.open(reminder_at=["2026-01-01T10:00:00+02:00", "2026-01-01T08:00:00Z"])
    assert opened.hitl["reminder_at"] == "2026-01-01T08:00:00Z"


async def test_the_first_event_names_who_asked_and_what_was_shown(kit: DeskForTests) -> None:
    opened = await kit.open()
    case = await kit.desk.get_owned_case(opened.id, ACME)
    (event,) = await kit.desk.list_events(opened.id)
    assert (event.type, event.actor, event.seq) == ("review.created", "key:acme", 1)
    assert case.offer_digest.encode() in (event.data or b"")
    assert find_broken_link([event], head=case.chain) is None


async def test_an_anonymous_case_is_opened_by_nobody_in_particular(kit: DeskForTests) -> None:
    opened = await kit.open(principal=ANONYMOUS)
    (event,) = await kit.desk.list_events(opened.id)
    assert event.actor == "anonymous"
    assert (await kit.desk.get_owned_case(opened.id, ANONYMOUS)).owner is None


async def test_the_entry_point_of_a_case_is_stored(kit: DeskForTests) -> None:
    draft = draft_from({"type": "approval", "prompt": "Go?"})
    opened = await kit.desk.open(draft, ACME, subject=Subject(entry_point="relay", ref="hold_1"))
    assert (await kit.desk.get_owned_case(opened.case_id, ACME)).subject == Subject(
        entry_point="relay", ref="hold_1"
    )


NESTED: dict[str, Any] = {}
for _ in range(40):
    NESTED = {"deeper": NESTED}

BAD_DRAFTS: dict[str, tuple[dict[str, Any], str]] = {
    "no such type": ({"type": "poll"}, "type"),
    "a type with a line break": ({"type": "approval\n"}, "type"),
    "a custom type without a name": ({"type": "x-"}, "type"),
    "a custom type in capitals": ({"type": "x-Vote", "actions": ["go"]}, "type"),
    "a custom type without actions": ({"type": "x-vote"}, "actions"),
    "a custom type with an empty list of actions": ({"type": "x-vote", "actions": []}, "actions"),
    "a custom type with an action that is none": ({"type": "x-vote", "actions": ["Go!"]}, "actions"),
    "a standard type with actions of its own": ({"actions": ["approve"]}, "actions"),
    "no prompt": ({"prompt": None}, "prompt"),
    "an empty prompt": ({"prompt": ""}, "prompt"),
    "a blank prompt": ({"prompt": " \n\t "}, "prompt"),
    "a prompt over 500 characters": ({"prompt": "p" * 501}, "prompt"),
    "a prompt that is no text": ({"prompt": ["Go?"]}, "prompt"),
    "a prompt with control characters": ({"prompt": "Go?\x1b[2J"}, "prompt"),
    "a prompt with half a character": ({"prompt": "Go? \ud83d"}, "prompt"),
    "a message over 2000 characters": ({"message": "m" * 2001}, "message"),
    "a message with NUL": ({"message": "\x00"}, "message"),
    "a service with no name": ({"service": ""}, "service"),
    "an agent with a bell": ({"agent": "Bo\x07b"}, "agent"),
    "a context that is a list": ({"context": []}, "context"),
    "a context that is too large": ({"context": {"text": "x" * 300_000}}, "context"),
    "a context that is too deep": ({"context": NESTED}, "context"),
    "a context with NUL": ({"context": {"list": [{"text": "a\x00b"}]}}, "context"),
    "a context with NUL in a key": ({"context": {"a\x00": 1}}, "context"),
    "a context with half a character": ({"context": {"text": "\udc00"}}, "context"),
    "a context that is not JSON": ({"context": {"when": object()}}, "context"),
    "a timeout in words": ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
    "an empty timeout": ({"timeout": ""}, "duration"),
    "no timeout at all": ({"timeout": "0s"}, "duration"),
    "a timeout over seven days": ({"timeout": "169h"}, "7d"),
    "a timeout of millennia": ({"timeout": "999999999999d"}, "ten years"),
    "a timeout in numbers": ({"timeout": 3600}, "timeout"),
    "a default that is no action": ({"default_action": "escalate"}, "default_action"),
    "approval by silence": ({"default_action": "approve"}, "allow_default_approve"),
    "a callback without https": ({"callback_url": "http://agent.example/"}, "https"),
    "a callback to this machine": ({"callback_url": "https://127.0.0.1/"}, "refused"),
    "a callback to the metadata service": ({"callback_url": "https://169.254.169.254/latest"}, "refused"),
    "a callback with a password": ({"callback_url": "https://u:p@agent.example/"}, "refused"),
    "a callback that is no address": ({"callback_url": "agent"}, "refused"),
    "a callback that is too long": ({"callback_url": "https://a.example/" + "a" * 2050}, "callback_url"),
    "a reminder in the past": ({"reminder_at": "2025-12-31T00:00:00Z"}, "reminder_at"),
    "a reminder now": ({"reminder_at": "2026-01-01T06:00:00Z"}, "reminder_at"),
    "a reminder at the end": ({"timeout": "1h", "reminder_at": "2026-01-01T07:00:00Z"}, "reminder_at"),
    "a reminder before time": ({"reminder_at": "0001-01-01T00:00:00+14:00"}, "reminder_at"),
    "a reminder after all": ({"reminder_at": "9999-12-31T23:59:59-14:00"}, "reminder_at"),
    "a reminder without a time zone": ({"reminder_at": "2026-01-01T08:00:00"}, "reminder_at"),
    "a reminder in words": ({"reminder_at": "tomorrow"}, "reminder_at"),
    "too many reminders": ({"reminder_at": ["2026-01-01T08:00:00Z"] * 21}, "reminder_at"),
    "an escalation nobody can stop": ({"type": "escalation", "actions": ["retry", "wait"]}, "abort"),
    "an escalation with another type's action": (
        {"type": "escalation", "actions": ["abort", "approve"]},
        "'approve' reads like",
    ),
    "a custom action that reads like ours": (
        {"type": "escalation", "actions": ["abort", "re-try"]},
        "'re-try' reads like",
    ),
    "a custom action with our label of another": (
        {"type": "escalation", "actions": ["abort", "stop"]},
        "'stop' reads like",
    ),
    "custom actions that read the same": (
        {"type": "escalation", "actions": ["abort", "roll-back", "roll_back"]},
        "rollback",
    ),
    "an affirmative abort": (
        {"type": "escalation", "actions": ["abort", "wait"], "affirmative_actions": ["abort"]},
        "never a yes",
    ),
    "an inline action of another type": ({"inline_actions": ["confirm"]}, "confirm"),
    "an inline edit": ({"inline_actions": ["approve", "edit"]}, "edit"),
    "an inline action that is none": ({"inline_actions": [""]}, "inline_actions"),
    "inline actions that are no list": ({"inline_actions": "approve"}, "inline_actions"),
    "inline actions before 0.6": ({"inline_actions": ["approve"], "spec_version": "0.5"}, "0.6"),
    "a policy before 0.8": ({"verification_policy": POLICY, "spec_version": "0.7"}, "0.8"),
    "a policy that nobody can satisfy": (
        {"verification_policy": POLICY | {"required_for": ["browser_submit"]}},
        "cannot verify",
    ),
    "half a policy": ({"verification_policy": {"mode": "required"}}, "verification_policy"),
    "a policy with control characters": (
        {"verification_policy": POLICY | {"binding": POLICY["binding"] | {"challenge": "\x01"}}},
        "verification_policy",
    ),
    "an unknown version": ({"spec_version": "0.4"}, "0.4"),
    "a future version": ({"spec_version": "1.0"}, "1.0"),
    "an id that is none": ({"previous_case_id": "../etc"}, "previous_case_id"),
    "an id of nobody's case": ({"previous_case_id": "review_unknown"}, "not a case of yours"),
    "a surface without a format": ({"surface": {"version": "1"}}, "surface"),
    "a surface with too much": ({"surface": {"format": "a2ui", "payload": {}}}, "surface"),
    "a surface with an endless name": ({"surface": {"format": "f" * 5000}}, "surface"),
    "a field that nobody knows": ({"deadline": "tomorrow"}, "deadline"),
    "a field of another object": ({"case_id": "review_mine"}, "case_id"),
}


@pytest.mark.parametrize(("fields", "named"), BAD_DRAFTS.values(), ids=BAD_DRAFTS)
async def test_a_draft_that_cannot_be_asked_is_refused_by_name_and_leaves_nothing(
    kit: DeskForTests, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        await kit.desk.open(draft_from({"type": "approval", "prompt": "Go?"} | fields), ACME)
    assert (refusal.value.code, refusal.value.status) == ("invalid_request", 400)
    assert named in refusal.value.message
    assert len(refusal.value.message) < 500
    assert msgspec.json.encode(refusal.value.body())
    assert not await kit.store.list_cases("acme")
    assert not await kit.store.list_endpoints("acme")


@pytest.mark.parametrize(
    ("type", "context", "error"),
    [
        ("selection", {"options": []}, ValidationFailed),
        ("selection", {"options": [{"title": "no id"}]}, ValidationFailed),
        ("confirmation", {"items": [{"title": "no id"}]}, ValidationFailed),
        ("escalation", {"params": []}, ValidationFailed),
        ("input", {"form": {}}, InvalidForm),
        ("input", {"form": None}, InvalidForm),
        ("input", {"form": {"fields": [], "steps": []}}, InvalidForm),
        ("approval", {"form": {"fields": "none"}}, InvalidForm),
    ],
)
async def test_a_context_that_its_kind_cannot_show_is_refused(
    kit: DeskForTests, type: str, context: dict[str, Any], error: type[PlacetError]
) -> None:
    with pytest.raises(error):
        await kit.open(type, context=context)
    assert not await kit.store.list_cases("acme")


@pytest.mark.parametrize("type", ["selection", "input"])
async def test_page_only_actions_cannot_be_inline(kit: DeskForTests, type: str) -> None:
    for action in REVIEW_TYPES[type].actions:
        with pytest.raises(ValidationFailed, match=action):
            await kit.open(type, inline_actions=[action])


async def test_confirmation_with_a_typed_word_cannot_be_inline(kit: DeskForTests) -> None:
    context = {"items": [{"id": "a", "title": "A"}], "confirm_word": "DELETE"}
    with pytest.raises(ValidationFailed, match="confirm"):
        await kit.open("confirmation", context=context, inline_actions=["confirm"])
    assert (await kit.open("confirmation", context=context, inline_actions=["cancel"])).hitl["submit_token"]


@pytest.mark.parametrize("type", [*REVIEW_TYPES, "x-tool-approval", "x-vote"])
async def test_default_approve_must_be_allowed_and_never_is_for_confirmations(
    kit: DeskForTests, type: str
) -> None:
    never = type in ("confirmation", "x-tool-approval")
    fields: dict[str, Any] = {"default_action": "approve"}
    with pytest.raises(ValidationFailed):
        await kit.open(type, **fields)
    if never:
        with pytest.raises(ValidationFailed, match="approve is not allowed"):
            await kit.open(type, allow_default_approve=True, **fields)
    else:
        opened = await kit.open(type, allow_default_approve=True, **fields)
        assert opened.hitl["default_action"] == "approve"


async def test_a_custom_type_offers_what_it_declares(kit: DeskForTests) -> None:
    opened = await kit.open(
        "x-vote",
        actions=["for", "against", "for"],
        affirmative_actions=["for", "for"],
        inline_actions=["against"],
        context={"motion": 12},
    )
    _, offer = await kit.human(opened).look()
    assert offer.actions == ("for", "against")
    assert offer.affirmative_actions == ("for",)
    assert opened.hitl["inline_actions"] == ["against"]


async def test_a_server_without_callbacks_says_so(store: Store) -> None:
    kit = create_desk_for_tests(store=store, sends_callbacks=False)
    with pytest.raises(ValidationFailed, match="no callbacks"):
        await kit.open(callback_url="https://agent.example/")


@pytest.mark.parametrize("version", SPEC_VERSIONS)
async def test_each_version_gets_its_own_fields(kit: DeskForTests, version: str) -> None:
    opened = await kit.open(spec_version=version, inline_actions=None)
    assert opened.hitl["spec_version"] == version
    assert "submission_context" not in await kit.poll(opened.id)


async def test_a_draft_made_in_python_is_held_to_the_same_rules(kit: DeskForTests) -> None:
    """A struct made by hand was never decoded, so nothing has looked at it yet."""
    for draft in (
        CaseDraft(type="poll", prompt="Go?"),
        CaseDraft(type="approval", prompt="\ud800"),
        CaseDraft(type="approval", prompt="Go?", context={"a": {1, 2}, "b": object()}),
    ):
        with pytest.raises(ValidationFailed):
            await kit.desk.open(draft, ACME)


async def test_times_are_stored_to_the_microsecond(kit: DeskForTests) -> None:
    kit.clock.advance(timedelta(microseconds=123_457))
    opened = await kit.open(timeout="0.000001s")
    case = await kit.desk.get_owned_case(opened.id, ACME)
    assert case.created_at == datetime(2026, 1, 1, 6, 0, 0, 123_457, tzinfo=UTC)
    assert case.expires_at - case.created_at == timedelta(microseconds=1)
