"""The `relay_reason` metadata of a task that the relay answers for."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

PolicyLevel = Literal["TENANT", "AGENT", "SUBSCRIPTION"]


class Timeout(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="TIMEOUT"):
    """The agent did not answer within the early-return timeout. The call continues."""


class HitlHeld(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_HELD"):
    """A policy holds the message until a person decides."""

    policy_name: str
    policy_version: str
    policy_level: PolicyLevel


class HitlHeldAgentInputRequired(
    Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_HELD_AGENT_INPUT_REQUIRED"
):
    """The agent requested input, and the request is held. No policy was involved."""


class HitlRejected(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_REJECTED"):
    """A person rejected the message. The policy is null if the agent had requested input."""

    policy_name: str | None
    policy_version: str | None
    policy_level: PolicyLevel | None


class HitlExpired(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_EXPIRED"):
    """Nobody decided about the message in time. The policy is null if the agent had requested input."""

    policy_name: str | None
    policy_version: str | None
    policy_level: PolicyLevel | None


RelayReason = Timeout | HitlHeld | HitlHeldAgentInputRequired | HitlRejected | HitlExpired


def reason_to_metadata(reason: RelayReason) -> dict[str, Any]:
    """Return the reason as metadata of a task."""
    metadata: dict[str, Any] = msgspec.to_builtins(reason)
    return metadata


def build_streaming_metadata(policy_name: str | None) -> dict[str, Any]:
    """Return the metadata of a stream whose text is sent when all of it is inspected.

    The name is that of the policy that needs the whole stream.
    """
    return {"relay_streaming": "whole", "relay_streaming_policy": policy_name}
