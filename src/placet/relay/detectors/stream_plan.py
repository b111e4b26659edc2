"""Plan how a stream is inspected, from the policies that apply to it."""

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from placet.relay.detectors.open_match import NOTHING_OPEN, OpenMatchFinder, build_finder, combine_finders
from placet.relay.detectors.pattern_width import compute_pattern_width
from placet.relay.policy.policy import Policy, PolicyAction, RegexDetection
from placet.relay.tenants import StreamingMode


class StreamPlan(Struct, frozen=True, kw_only=True):
    """How a stream is inspected.

    - `events`: each event alone, because no policy masks, holds or blocks;
    - `observe`: everything leaves at once, and the stream is inspected when it has ended;
    - `window`: text leaves as soon as it cannot be part of a match any more;
    - `whole`: no text leaves before the end of the stream.
    """

    mode: Literal["events", "observe", "window", "whole"] = "events"
    finder: OpenMatchFinder = NOTHING_OPEN
    """Where a match may have begun, for `window`."""
    has_unknown_width: bool = False
    """Whether a detector does not say how many characters decide a match, as Presidio does not."""
    step: int = 0
    """How many new characters of a text are inspected at a time, for a window of unknown width."""
    policy_name: str | None = None
    """The policy that needs the whole stream, for `whole`."""

    @property
    def is_withheld(self) -> bool:
        """Whether events must not be sent before they are inspected together with others."""
        return self.mode in ("window", "whole")


INSPECT_EVENTS = StreamPlan()
MILDEST = PolicyAction.MASK
"""Policies with a milder action do not change messages."""
STRICTNESS = {mode: rank for rank, mode in enumerate(("events", "observe", "window", "whole"))}
"""The strictest mode of all policies and the agent counts."""


def plan_stream(policies: Iterable[Policy], agent: StreamingMode | None = None) -> StreamPlan:
    """Return the plan for a stream to which these policies apply on one leg.

    `agent` is the mode of the agent's settings.
    """
    plan = INSPECT_EVENTS
    for policy in policies:
        if policy.action.strictness >= MILDEST.strictness:
            plan = combine_plans(plan, _plan_policy(policy, agent))
    return plan


def refine_plan(plan: StreamPlan, finder: OpenMatchFinder) -> StreamPlan:
    """Return the plan with a finder that knows how the matches of all its patterns begin."""
    if plan.mode != "window":
        return plan
    return replace(plan, finder=OpenMatchFinder(plan.finder.width, finder.beginnings, finder.other_width))


def build_leg_finder(policies: Iterable[Policy]) -> OpenMatchFinder:
    """Return the finder for all policies that may apply on a leg. This compiles all patterns."""
    patterns: list[tuple[str, int]] = []
    for policy in policies:
        if isinstance(policy.config, RegexDetection) and policy.action.strictness >= MILDEST.strictness:
            width = compute_pattern_width(policy.config.pattern.regex)
            if width is not None:
                patterns.append((policy.config.pattern.regex, width))
    return build_finder(patterns)


def combine_plans(first: StreamPlan, second: StreamPlan) -> StreamPlan:
    """Return a plan that is as strict as both."""
    stricter, other = (second, first) if STRICTNESS[second.mode] > STRICTNESS[first.mode] else (first, second)
    if stricter.mode != "window":
        return stricter
    return StreamPlan(
        mode="window",
        finder=combine_finders(stricter.finder, other.finder),
        has_unknown_width=stricter.has_unknown_width or other.has_unknown_width,
    )


def _plan_policy(policy: Policy, agent: StreamingMode | None) -> StreamPlan:
    mode = _choose_mode(policy, agent)
    if mode == "observe":
        return StreamPlan(mode="observe")
    if mode != "whole" and isinstance(policy.config, RegexDetection):
        width = compute_pattern_width(policy.config.pattern.regex)
        if width is not None:
            return StreamPlan(mode="window", finder=OpenMatchFinder(width, (), width))
    elif mode == "window":
        return StreamPlan(mode="window", has_unknown_width=True)
    return StreamPlan(mode="whole", policy_name=policy.name)


def _choose_mode(policy: Policy, agent: StreamingMode | None) -> StreamingMode | None:
    """Return the stricter mode of the policy and the agent, or None if neither is set.

    An agent's `observe` does not apply to policies that hold or block. They must say so themselves.
    """
    own = None if policy.streaming is UNSET else policy.streaming
    if agent == "observe" and own is None and policy.action is not PolicyAction.MASK:
        return None
    if own is None or agent is None:
        return own or agent
    return max(own, agent, key=STRICTNESS.__getitem__)
