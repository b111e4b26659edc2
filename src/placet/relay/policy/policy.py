"""Policies: what to look for, on which legs, and what to do about it; also as read from a file."""

import hashlib
import tomllib
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, NoReturn, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from placet.errors import ValidationFailed
from placet.ports.detector import Rule
from placet.protocol.conversion import convert_input, quote
from placet.protocol.timestamp import Timestamp
from placet.relay.tenants import StreamingMode
from placet.text.characters import is_one_line, is_storable

MAX_NAME_LENGTH = 200
MAX_DESCRIPTION_LENGTH = 2_000
MAX_PATTERN_LENGTH = 4_000
MAX_OPTIONS_BYTES = 16_384
PLUGIN_PREFIX = "x-"


class Leg(StrEnum):
    """One of the four points at which an exchange is inspected, or an agent's card."""

    REQUEST_FROM_SOURCE = "requestFromSource"
    REQUEST_TO_SINK = "requestToSink"
    RESPONSE_FROM_SINK = "responseFromSink"
    RESPONSE_TO_SOURCE = "responseToSource"
    AGENT_CARD = "agentCard"


REQUEST_LEGS = (Leg.REQUEST_FROM_SOURCE, Leg.REQUEST_TO_SINK)
RESPONSE_LEGS = (Leg.RESPONSE_FROM_SINK, Leg.RESPONSE_TO_SOURCE)
MESSAGE_LEGS = (*REQUEST_LEGS, *RESPONSE_LEGS)
"""The legs of a message, in the order in which an exchange passes them."""


class PolicyAction(StrEnum):
    """What happens on a match, from the mildest to the strictest action."""

    LOG = "LOG"
    WARN = "WARN"
    MASK = "MASK"
    HUMAN_REVIEW_REQUIRED = "HUMAN_REVIEW_REQUIRED"
    BLOCK = "BLOCK"

    @property
    def strictness(self) -> int:
        """Return the rank of the action; a larger rank is stricter."""
        return _STRICTNESS[self]


_STRICTNESS = {action: rank for rank, action in enumerate(PolicyAction)}


class _WireStruct(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of the API's structs: camelCase names, unknown fields are refused."""


class EnabledLegs(_WireStruct, frozen=True, kw_only=True):
    """The legs that a policy inspects."""

    request_from_source: bool = False
    request_to_sink: bool = False
    response_from_sink: bool = False
    response_to_source: bool = False
    agent_card: bool | UnsetType = UNSET
    """Left out of JSON unless it is set, because most policies inspect only messages."""

    def __contains__(self, leg: Leg) -> bool:
        return leg in self.legs

    @property
    def legs(self) -> tuple[Leg, ...]:
        """Return the enabled legs in the order in which an exchange passes them."""
        flags = (
            self.request_from_source,
            self.request_to_sink,
            self.response_from_sink,
            self.response_to_source,
            self.agent_card is True,
        )
        return tuple(leg for leg, enabled in zip(Leg, flags, strict=True) if enabled)


class RegexPattern(_WireStruct, frozen=True, kw_only=True):
    """A regular expression and the action on a match."""

    regex: Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN_LENGTH)]
    action: PolicyAction


class DetectedEntity(_WireStruct, frozen=True, kw_only=True):
    """An entity type, the minimum score, and the action on a match."""

    type: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    action: PolicyAction


class RegexDetection(_WireStruct, frozen=True, kw_only=True, tag_field="type", tag="REGEX_DETECTION"):
    """Detects one pattern."""

    enabled_legs: EnabledLegs
    pattern: RegexPattern


class PresidioDetection(_WireStruct, frozen=True, kw_only=True, tag_field="type", tag="PRESIDIO_DETECTION"):
    """Detects one entity type with Presidio."""

    enabled_legs: EnabledLegs
    entity: DetectedEntity


class ComprehendDetection(
    _WireStruct, frozen=True, kw_only=True, tag_field="type", tag="COMPREHEND_DETECTION"
):
    """Detects one entity type with Amazon Comprehend."""

    enabled_legs: EnabledLegs
    entity: DetectedEntity


class UnreadableTextDetection(
    _WireStruct, frozen=True, kw_only=True, tag_field="type", tag="UNREADABLE_TEXT_DETECTION"
):
    """Detects text without a plain reading, which no other policy can be expected to match."""

    enabled_legs: EnabledLegs
    action: PolicyAction


class PluginDetection(_WireStruct, frozen=True, kw_only=True):
    """Detects with a plug-in. The plug-in of this type defines what `options` mean."""

    type: Annotated[str, Meta(pattern=r"^x-[a-z0-9][a-z0-9_.-]{0,60}$(?!\n)")]
    enabled_legs: EnabledLegs
    action: PolicyAction
    score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0
    options: dict[str, Any] = {}


DetectionConfig: TypeAlias = (
    RegexDetection | PresidioDetection | ComprehendDetection | UnreadableTextDetection | PluginDetection
)
_CONFIG_TYPES: dict[str, type[DetectionConfig]] = {
    "REGEX_DETECTION": RegexDetection,
    "PRESIDIO_DETECTION": PresidioDetection,
    "COMPREHEND_DETECTION": ComprehendDetection,
    "UNREADABLE_TEXT_DETECTION": UnreadableTextDetection,
}


class PolicyDraft(_WireStruct, frozen=True, kw_only=True):
    """The request body that creates a policy or a new version."""

    name: str
    description: str = ""
    config: DetectionConfig
    streaming: StreamingMode | UnsetType = UNSET
    """How streams are inspected. Left out of JSON unless it is set."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None


class Policy(_WireStruct, frozen=True, kw_only=True):
    """One version of a policy. Versions never change and are never deleted."""

    policy_id: str
    version: str
    name: str
    description: str
    policy_type: str
    config: DetectionConfig
    streaming: StreamingMode | UnsetType = UNSET
    valid_from: datetime | None
    valid_to: datetime | None
    created_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """Return id and version, which identify the policy version."""
        return self.policy_id, self.version

    @property
    def action(self) -> PolicyAction:
        """Return the action on a match."""
        return get_action(self.config)

    def is_valid(self, at: datetime) -> bool:
        """Return whether the policy is in force at this time. `valid_to` is exclusive."""
        return is_in_window(self.valid_from, self.valid_to, at)


Config = Annotated[
    dict[str, Any],
    Meta(
        description="`type`, `enabledLegs`, and the fields of the type: `pattern` {`regex`, `action`} for "
        "`REGEX_DETECTION`; `entity` {`type`, `scoreThreshold`, `action`} for `PRESIDIO_DETECTION` and "
        "`COMPREHEND_DETECTION`; `action` for `UNREADABLE_TEXT_DETECTION`; `action`, `scoreThreshold` and "
        "`options` for a plug-in's `x-…`.",
        examples=[
            {
                "type": "REGEX_DETECTION",
                "enabledLegs": {"requestToSink": True},
                "pattern": {"regex": "secret", "action": "BLOCK"},
            }
        ],
    ),
]
Streaming = Annotated[
    StreamingMode | None,
    Meta(
        description="How streams are inspected if the policy masks, holds or blocks. `window` sends text as "
        "soon as no match can begin in it, `whole` sends it after the end of the stream, `observe` sends it "
        "at once and reports matches afterwards. Null for the agent's mode, or else `window` for a bounded "
        "pattern and `whole` for all else. The strictest mode of all policies and the agent counts."
    ),
]


class PolicyRequest(_WireStruct, frozen=True, kw_only=True):
    """The content of a policy."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION_LENGTH)] | None = None
    config: Config
    streaming: Streaming = None
    valid_from: Timestamp | None = None
    valid_to: Annotated[Timestamp | None, Meta(description="The end of the validity period, exclusive.")] = (
        None
    )


class _StoredShape(_WireStruct, frozen=True, kw_only=True):
    policy_id: str
    version: str
    name: str
    description: str
    policy_type: str
    config: dict[str, Any]
    streaming: StreamingMode | UnsetType = UNSET
    valid_from: Timestamp | None = None
    valid_to: Timestamp | None = None
    created_at: Timestamp


def parse_policy_draft(raw: object, name: str = "policy") -> PolicyDraft:
    """Validate and return a policy draft; raise `ValidationFailed` with the path of the invalid field.

    The detector checks separately whether it supports the detection.
    """
    body = convert_input(raw, PolicyRequest, ValidationFailed, name)
    check_single_line(body.name, f"{name}.name")
    if body.description and not is_storable(body.description):
        raise_invalid(f"{name}.description", "must not contain control characters")
    check_window(body.valid_from, body.valid_to, name)
    return PolicyDraft(
        name=body.name,
        description=body.description or "",
        config=parse_detection_config(body.config, f"{name}.config"),
        streaming=body.streaming or UNSET,
        valid_from=body.valid_from,
        valid_to=body.valid_to,
    )


def parse_policy(raw: object) -> Policy:
    """Return a policy version from its stored or JSON form; raise `ValidationFailed` if it is invalid."""
    stored = convert_input(raw, _StoredShape, ValidationFailed, "policy")
    config = parse_detection_config(stored.config, "policy.config")
    return Policy(**(asdict(stored) | {"config": config}))


def parse_detection_config(raw: object, name: str = "config") -> DetectionConfig:
    """Validate and return a detection; raise `ValidationFailed` for an invalid type, leg or value."""
    type_name = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(type_name, str):
        raise_invalid(f"{name}.type", f"is missing; use one of {', '.join(_CONFIG_TYPES)} or x-…")
    shape = PluginDetection if type_name.startswith(PLUGIN_PREFIX) else _CONFIG_TYPES.get(type_name)
    if shape is None:
        raise_invalid(
            f"{name}.type",
            f"{quote(type_name)} is not a known type; use one of {', '.join(_CONFIG_TYPES)} or x-…",
        )
    config = cast(DetectionConfig, convert_input(raw, cast(Any, shape), ValidationFailed, name))
    _check_config(config, name)
    return config


def create_policy(draft: PolicyDraft, *, policy_id: str, now: datetime) -> Policy:
    """Return version 1 of a new policy."""
    return _build_version(draft, policy_id=policy_id, version="1", now=now)


def create_next_version(newest: Policy, draft: PolicyDraft, *, now: datetime) -> Policy:
    """Return the version that follows the newest one."""
    return _build_version(draft, policy_id=newest.policy_id, version=str(int(newest.version) + 1), now=now)


def get_detection_type(config: DetectionConfig) -> str:
    """Return the detection's type as written in JSON."""
    if isinstance(config, PluginDetection):
        return config.type
    return cast(str, type(config).__struct_config__.tag)


def get_action(config: DetectionConfig) -> PolicyAction:
    """Return the action on a match."""
    if isinstance(config, RegexDetection):
        return config.pattern.action
    if isinstance(config, UnreadableTextDetection | PluginDetection):
        return config.action
    return config.entity.action


def build_rule(config: DetectionConfig) -> Rule:
    """Return the rule for the detector."""
    if isinstance(config, RegexDetection):
        return Rule(what=config.pattern.regex)
    if isinstance(config, UnreadableTextDetection):
        return Rule()
    if isinstance(config, PluginDetection):
        return Rule(threshold=config.score_threshold, options=config.options)
    return Rule(what=config.entity.type, threshold=config.entity.score_threshold)


def is_in_window(start: datetime | None, end: datetime | None, at: datetime) -> bool:
    """Return whether the time is in the window. The start is inclusive, the end exclusive."""
    return (start is None or start <= at) and (end is None or at < end)


def raise_invalid(path: str, reason: str) -> NoReturn:
    """Raise `ValidationFailed` with the field's path and the reason."""
    raise ValidationFailed(f"{path} {reason}.", path=path)


def check_single_line(text: str, path: str) -> None:
    """Raise `ValidationFailed` if the text is blank, has several lines or contains control characters."""
    if not text.strip():
        raise_invalid(path, "is blank")
    if not is_storable(text) or not is_one_line(text):
        raise_invalid(path, "must be one line without control characters")


def check_window(start: datetime | None, end: datetime | None, name: str) -> None:
    """Raise `ValidationFailed` if the window ends before it starts."""
    if start is not None and end is not None and end <= start:
        raise_invalid(f"{name}.validTo", "is not after validFrom")


def _build_version(draft: PolicyDraft, *, policy_id: str, version: str, now: datetime) -> Policy:
    return Policy(
        policy_id=policy_id,
        version=version,
        policy_type=get_detection_type(draft.config),
        created_at=now,
        **asdict(draft),
    )


def _check_config(config: DetectionConfig, name: str) -> None:
    if not config.enabled_legs.legs:
        raise_invalid(f"{name}.enabledLegs", f"enables no leg; set at least one of {', '.join(Leg)} to true")
    if isinstance(config, RegexDetection | UnreadableTextDetection):
        return
    if isinstance(config, PluginDetection):
        _check_options(config.options, f"{name}.options")
        threshold, path = config.score_threshold, f"{name}.scoreThreshold"
    else:
        check_single_line(config.entity.type, f"{name}.entity.type")
        threshold, path = config.entity.score_threshold, f"{name}.entity.scoreThreshold"
    if not isfinite(threshold):
        raise_invalid(path, "is not a number from 0 to 1")


def _check_options(options: dict[str, Any], path: str) -> None:
    try:
        size = len(msgspec.json.encode(options))
    except (TypeError, ValueError, RecursionError):
        raise_invalid(path, "contains a value that JSON cannot represent")
    else:
        if size > MAX_OPTIONS_BYTES:
            raise_invalid(path, f"is larger than {MAX_OPTIONS_BYTES} bytes")


_encode = msgspec.json.Encoder(order="sorted").encode


def parse_policy_file(content: bytes, *, name: str, is_toml: bool, now: datetime) -> list[Policy]:
    """Return the policies of a file: one policy, a list, or a table with `policies`.

    Raises `ValidationFailed` if the file is invalid. Each id is derived from the policy's content, because a
    file has no versions: a changed policy gets a new id.
    """
    try:
        raw: Any = tomllib.loads(content.decode()) if is_toml else msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:
        raise ValidationFailed(f"{name} is not valid {'TOML' if is_toml else 'JSON'}: {error}.") from error
    if isinstance(raw, dict) and "policies" in raw:
        raw = raw["policies"]
    entries = raw if isinstance(raw, list) else [raw]
    if not entries:
        raise ValidationFailed(f"{name} contains no policies. Add at least one.")
    drafts = (parse_policy_draft(one, f"policies[{index}]") for index, one in enumerate(entries))
    return [create_policy(draft, policy_id=_derive_policy_id(draft), now=now) for draft in drafts]


def _derive_policy_id(draft: PolicyDraft) -> str:
    return f"file-{hashlib.sha256(_encode(draft)).hexdigest()[:16]}"
