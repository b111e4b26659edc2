"""Policies from outside: the seed's shapes are taken, everything else is refused with its path."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from placet.errors import ValidationFailed
from placet.relay.policy.policy import (
    Leg,
    PluginDetection,
    PolicyAction,
    create_next_version,
    create_policy,
    parse_policy,
    parse_policy_draft,
)
from tests.relay.policies.samples import (
    ALL_LEGS,
    NOW,
    build_entity_draft,
    build_plugin_draft,
    build_policy,
    build_regex_draft,
)

SEED = {
    "name": "Review Messages with SSNs",
    "description": "Hold messages that contain US social security numbers",
    "config": {
        "type": "PRESIDIO_DETECTION",
        "enabledLegs": ALL_LEGS,
        "entity": {"type": "US_SSN", "scoreThreshold": 0.7, "action": "HUMAN_REVIEW_REQUIRED"},
    },
}


def test_a_created_policy_travels_with_every_field_of_the_wire():
    made = create_policy(parse_policy_draft(SEED), policy_id="p1", now=NOW)
    assert msgspec.to_builtins(made) == {
        "policyId": "p1",
        "version": "1",
        "name": SEED["name"],
        "description": SEED["description"],
        "policyType": "PRESIDIO_DETECTION",
        "config": SEED["config"],
        "validFrom": None,
        "validTo": None,
        "createdAt": "2026-11-15T12:00:00Z",
    }


@pytest.mark.parametrize(
    "draft",
    [
        SEED,
        build_regex_draft("secret", "MASK"),
        build_entity_draft("BANK_ACCOUNT_NUMBER", engine="COMPREHEND"),
        build_plugin_draft("x-tone", "WARN", words=["fool"]),
        {**SEED, "validFrom": "2026-01-01T00:00:00Z", "validTo": "2027-01-01T00:00:00+02:00"},
    ],
)
def test_a_policy_is_read_back_as_it_was_kept(draft: dict[str, Any]):
    made = build_policy(draft)
    assert parse_policy(msgspec.json.decode(msgspec.json.encode(made))) == made


def test_a_new_version_leaves_the_old_one_as_it_is():
    old = build_policy(SEED)
    new = create_next_version(
        old, parse_policy_draft({**SEED, "name": "Stricter"}), now=NOW + timedelta(days=1)
    )
    assert (old.version, old.name) == ("1", SEED["name"])
    assert (new.version, new.name, new.policy_id) == ("2", "Stricter", old.policy_id)


def test_a_policy_is_valid_from_its_first_moment_to_just_before_its_last():
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    made = build_policy({**SEED, "validFrom": start.isoformat(), "validTo": end.isoformat()})
    moments = [start - timedelta(microseconds=1), start, end - timedelta(microseconds=1), end]
    assert [made.is_valid(at) for at in moments] == [False, True, True, False]


def test_a_plug_in_keeps_its_options():
    config = build_policy(build_plugin_draft("x-tone", words=["fool"])).config
    assert isinstance(config, PluginDetection)
    assert (config.type, config.options) == ("x-tone", {"words": ["fool"]})


def test_block_is_stricter_than_a_hold_and_a_hold_than_a_mask():
    assert sorted(PolicyAction, key=lambda action: action.strictness) == [
        PolicyAction.LOG,
        PolicyAction.WARN,
        PolicyAction.MASK,
        PolicyAction.HUMAN_REVIEW_REQUIRED,
        PolicyAction.BLOCK,
    ]


def test_a_leg_that_is_not_named_is_off():
    made = build_policy(build_regex_draft("x", legs={"responseFromSink": True}))
    assert made.config.enabled_legs.legs == (Leg.RESPONSE_FROM_SINK,)


def remove_member(draft: dict[str, Any], *path: str) -> dict[str, Any]:
    return change_member(draft, path, remove=True)


def change_member(draft: Any, path: tuple[str, ...], value: Any = None, *, remove: bool = False) -> Any:
    name, *rest = path
    copied = dict(draft)
    if rest:
        copied[name] = change_member(copied[name], tuple(rest), value, remove=remove)
    elif remove:
        del copied[name]
    else:
        copied[name] = value
    return copied


LEGLESS = dict.fromkeys(ALL_LEGS, False)
WRONG: list[tuple[Any, str]] = [
    (None, "policy"),
    ([], "policy"),
    ({}, "policy"),
    (remove_member(SEED, "name"), "policy"),
    (change_member(SEED, ("name",), ""), "policy.name"),
    (change_member(SEED, ("name",), "   "), "policy.name"),
    (change_member(SEED, ("name",), "two\nlines"), "policy.name"),
    (change_member(SEED, ("name",), "nul\0"), "policy.name"),
    (change_member(SEED, ("name",), "lone \ud800"), "policy.name"),
    (change_member(SEED, ("name",), "n" * 201), "policy.name"),
    (change_member(SEED, ("name",), 7), "policy.name"),
    (change_member(SEED, ("description",), "\x1b[31m"), "policy.description"),
    (change_member(SEED, ("extra",), 1), "policy"),
    (change_member(SEED, ("validFrom",), "2026-01-01T00:00:00"), "policy.validFrom"),
    (change_member(SEED, ("validFrom",), "soon"), "policy.validFrom"),
    ({**SEED, "validFrom": "2026-02-01T00:00:00Z", "validTo": "2026-02-01T00:00:00Z"}, "policy.validTo"),
    (remove_member(SEED, "config"), "policy"),
    (change_member(SEED, ("config",), "REGEX"), "policy.config"),
    (remove_member(SEED, "config", "type"), "policy.config.type"),
    (change_member(SEED, ("config", "type"), "MAGIC"), "policy.config.type"),
    (change_member(SEED, ("config", "type"), 3), "policy.config.type"),
    (change_member(SEED, ("config", "type"), "RATE_LIMIT"), "policy.config.type"),
    (remove_member(SEED, "config", "enabledLegs"), "policy.config"),
    (change_member(SEED, ("config", "enabledLegs"), {}), "policy.config.enabledLegs"),
    (change_member(SEED, ("config", "enabledLegs"), LEGLESS), "policy.config.enabledLegs"),
    (change_member(SEED, ("config", "enabledLegs"), {"sideways": True}), "policy.config.enabledLegs"),
    (
        change_member(SEED, ("config", "enabledLegs", "requestToSink"), "yes"),
        "policy.config.enabledLegs.requestToSink",
    ),
    (change_member(SEED, ("config", "entity", "action"), "SHOUT"), "policy.config.entity.action"),
    (change_member(SEED, ("config", "entity", "type"), ""), "policy.config.entity.type"),
    (
        change_member(SEED, ("config", "entity", "scoreThreshold"), 1.01),
        "policy.config.entity.scoreThreshold",
    ),
    (change_member(SEED, ("config", "entity", "scoreThreshold"), -1), "policy.config.entity.scoreThreshold"),
    (
        change_member(SEED, ("config", "entity", "scoreThreshold"), float("nan")),
        "policy.config.entity.scoreThreshold",
    ),
    (
        change_member(SEED, ("config", "entity", "scoreThreshold"), "high"),
        "policy.config.entity.scoreThreshold",
    ),
    (change_member(SEED, ("config", "pattern"), {"regex": "x", "action": "LOG"}), "policy.config"),
    (build_regex_draft(""), "policy.config.pattern.regex"),
    (build_regex_draft("x" * 4001), "policy.config.pattern.regex"),
    (remove_member(build_regex_draft("x"), "config", "pattern", "action"), "policy.config.pattern"),
    (build_plugin_draft("x-"), "policy.config.type"),
    (build_plugin_draft("x-Bad Name"), "policy.config.type"),
    (build_plugin_draft("x-tone\n"), "policy.config.type"),
    (build_plugin_draft("x-tone", big="b" * 20_000), "policy.config.options"),
    (build_plugin_draft("x-tone", lone="\ud800"), "policy.config.options"),
]


@pytest.mark.parametrize(("draft", "path"), WRONG)
def test_what_does_not_fit_is_refused_with_its_path(draft: Any, path: str):
    with pytest.raises(ValidationFailed) as refused:
        parse_policy_draft(draft)
    body = refused.value.body()
    assert (refused.value.status, body["error"], body["path"]) == (400, "invalid_request", path)
    assert body["message"].isprintable()
    assert msgspec.json.encode(body)
