"""Plan how a stream is inspected, from the policies that apply to it."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from placet.relay.detectors.pattern_width import compute_pattern_width
from placet.relay.policy.policy import Policy, PolicyAction, RegexDetection


class StreamPlan(Struct, frozen=True, kw_only=True):
    """How a stream is inspected.

    - `events`: each event alone, because no policy masks, holds or blocks;
    - `window`: text leaves as soon as it cannot be part of a match any more;
    - `whole`: no text leaves before the end of the stream.
    """

    mode: Literal["events", "window", "whole"] = "events"
    width: int = 0
    """The number of characters that decide a match, for `window`."""
    policy_name: str | None = None
    """The policy that needs the whole stream, for `whole`."""


INSPECT_EVENTS = StreamPlan()


def plan_stream(policies: Iterable[Policy]) -> StreamPlan:
    """Return the plan for a stream to which these policies apply on one leg."""
    plan = INSPECT_EVENTS
    for policy in policies:
        if policy.action.strictness >= PolicyAction.MASK.strictness:
            plan = combine_plans(plan, _plan_policy(policy))
    return plan


def combine_plans(first: StreamPlan, second: StreamPlan) -> StreamPlan:
    """Return a plan that is as careful as both."""
    for mode in ("whole", "window"):
        wanted = [plan for plan in (first, second) if plan.mode == mode]
        if wanted:
            return StreamPlan(
                mode=wanted[0].mode,
                width=max(plan.width for plan in wanted),
                policy_name=wanted[0].policy_name,
            )
    return first


def _plan_policy(policy: Policy) -> StreamPlan:
    width = None
    if isinstance(policy.config, RegexDetection):
        width = compute_pattern_width(policy.config.pattern.regex)
    if width is None:
        return StreamPlan(mode="whole", policy_name=policy.name)
    return StreamPlan(mode="window", width=width)
