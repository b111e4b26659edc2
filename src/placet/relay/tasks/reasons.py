"""The `relay_reason` metadata of a task that the relay has taken over."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

PolicyLevel = Literal["TENANT", "AGENT", "SUBSCRIPTION"]


class Timeout(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="TIMEOUT"):
    """The agent did not answer within the early-return timeout; the call goes on."""


class HitlHeld(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_HELD"):
    """A policy holds the message until a person has looked at it."""

    policy_name: str
    policy_version: str
    policy_level: PolicyLevel


class HitlHeldAgentInputRequired(
    Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_HELD_AGENT_INPUT_REQUIRED"
):
    """The agent asked for a person; no policy was involved."""


class HitlRejected(Struct, frozen=True, kw_only=True, tag_field="relay_reason", tag="HITL_REJECTED"):
    """A person refused the message; the policy is null where the agent had asked."""

    policy_name: str | None
    policy_version: str | None
    policy_level: PolicyLevel | None


RelayReason = Timeout | HitlHeld | HitlHeldAgentInputRequired | HitlRejected


def reason_to_metadata(reason: RelayReason) -> dict[str, Any]:
    """The reason as metadata of a task."""
    found: dict[str, Any] = msgspec.to_builtins(reason)
    return found
