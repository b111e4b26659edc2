"""Policies from outside: the seed's shapes are taken, everything else is refused with its path."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from placet.errors import ValidationFailed
from placet.relay.policies.policy import (
    Leg,
    PluginDetection,
    PolicyAction,
    create_next_version,
    create_policy,
    parse_policy,
    parse_policy_draft,
)
from tests.relay.policies.samples import ALL_LEGS, NOW, entity_draft, plugin_draft, policy, regex_draft

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
        regex_draft("secret", "MASK"),
        entity_draft("BANK_ACCOUNT_NUMBER", engine="COMPREHEND"),
        plugin_draft("x-tone", "WARN", words=["fool"]),
        {**SEED, "validFrom": "2026-01-01T00:00:00Z", "validTo": "2027-01-01T00:00:00+02:00"},
    ],
)
def test_a_policy_is_read_back_as_it_was_kept(draft: dict[str, Any]):
    made = policy(draft)
    assert parse_policy(msgspec.json.decode(msgspec.json.encode(made))) == made


def test_a_new_version_leaves_the_old_one_as_it_is():
    old = policy(SEED)
    new = create_next_version(
        old, parse_policy_draft({**SEED, "name": "Stricter"}), now=NOW + timedelta(days=1)
    )
    assert (old.version, old.name) == ("1", SEED["name"])
    assert (new.version, new.name, new.policy_id) == ("2", "Stricter", old.policy_id)


def test_a_policy_is_valid_from_its_first_moment_to_just_before_its_last():
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    made = policy({**SEED, "validFrom": start.isoformat(), "validTo": end.isoformat()})
    moments = [start - timedelta(microseconds=1), start, end - timedelta(microseconds=1), end]
    assert [made.is_valid(at) for at in moments] == [False, True, True, False]


def test_a_plug_in_keeps_its_options():
    config = policy(plugin_draft("x-tone", words=["fool"])).config
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
    made = policy(regex_draft("x", legs={"responseFromSink": True}))
    assert made.config.enabled_legs.legs == (Leg.RESPONSE_FROM_SINK,)


def without(draft: dict[str, Any], *path: str) -> dict[str, Any]:
    return changed(draft, path, remove=True)


def changed(draft: Any, path: tuple[str, ...], value: Any = None, *, remove: bool = False) -> Any:
    name, *rest = path
    copied = dict(draft)
    if rest:
        copied[name] = changed(copied[name], tuple(rest), value, remove=remove)
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
    (without(SEED, "name"), "policy"),
    (changed(SEED, ("name",), ""), "policy.name"),
    (changed(SEED, ("name",), "   "), "policy.name"),
    (changed(SEED, ("name",), "two\nlines"), "policy.name"),
    (changed(SEED, ("name",), "nul\0"), "policy.name"),
    (changed(SEED, ("name",), "lone \ud800"), "policy.name"),
    (changed(SEED, ("name",), "n" * 201), "policy.name"),
    (changed(SEED, ("name",), 7), "policy.name"),
    (changed(SEED, ("description",), "\x1b[31m"), "policy.description"),
    (changed(SEED, ("extra",), 1), "policy"),
    (changed(SEED, ("validFrom",), "2026-01-01T00:00:00"), "policy.validFrom"),
    (changed(SEED, ("validFrom",), "soon"), "policy.validFrom"),
    ({**SEED, "validFrom": "2026-02-01T00:00:00Z", "validTo": "2026-02-01T00:00:00Z"}, "policy.validTo"),
    (without(SEED, "config"), "policy"),
    (changed(SEED, ("config",), "REGEX"), "policy.config"),
    (without(SEED, "config", "type"), "policy.config.type"),
    (changed(SEED, ("config", "type"), "MAGIC"), "policy.config.type"),
    (changed(SEED, ("config", "type"), 3), "policy.config.type"),
    (changed(SEED, ("config", "type"), "RATE_LIMIT"), "policy.config.type"),
    (without(SEED, "config", "enabledLegs"), "policy.config"),
    (changed(SEED, ("config", "enabledLegs"), {}), "policy.config.enabledLegs"),
    (changed(SEED, ("config", "enabledLegs"), LEGLESS), "policy.config.enabledLegs"),
    (changed(SEED, ("config", "enabledLegs"), {"sideways": True}), "policy.config.enabledLegs"),
    (
        changed(SEED, ("config", "enabledLegs", "requestToSink"), "yes"),
        "policy.config.enabledLegs.requestToSink",
    ),
    (changed(SEED, ("config", "entity", "action"), "SHOUT"), "policy.config.entity.action"),
    (changed(SEED, ("config", "entity", "type"), ""), "policy.config.entity.type"),
    (changed(SEED, ("config", "entity", "scoreThreshold"), 1.01), "policy.config.entity.scoreThreshold"),
    (changed(SEED, ("config", "entity", "scoreThreshold"), -1), "policy.config.entity.scoreThreshold"),
    (
        changed(SEED, ("config", "entity", "scoreThreshold"), float("nan")),
        "policy.config.entity.scoreThreshold",
    ),
    (changed(SEED, ("config", "entity", "scoreThreshold"), "high"), "policy.config.entity.scoreThreshold"),
    (changed(SEED, ("config", "pattern"), {"regex": "x", "action": "LOG"}), "policy.config"),
    (regex_draft(""), "policy.config.pattern.regex"),
    (regex_draft("x" * 4001), "policy.config.pattern.regex"),
    (without(regex_draft("x"), "config", "pattern", "action"), "policy.config.pattern"),
    (plugin_draft("x-"), "policy.config.type"),
    (plugin_draft("x-Bad Name"), "policy.config.type"),
    (plugin_draft("x-tone\n"), "policy.config.type"),
    (plugin_draft("x-tone", big="b" * 20_000), "policy.config.options"),
    (plugin_draft("x-tone", lone="\ud800"), "policy.config.options"),
]


@pytest.mark.parametrize(("draft", "path"), WRONG)
def test_what_does_not_fit_is_refused_with_its_path(draft: Any, path: str):
    with pytest.raises(ValidationFailed) as refused:
        parse_policy_draft(draft)
    body = refused.value.body()
    assert (refused.value.status, body["error"], body["path"]) == (400, "invalid_request", path)
    assert body["message"].isprintable()
    assert msgspec.json.encode(body)
