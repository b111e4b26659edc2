"""How a stream is inspected: the strictest mode of the policies and the agent counts."""

import pytest

from placet.relay.detectors.stream_plan import plan_stream
from placet.relay.policy.policy import Policy
from placet.relay.tenants import StreamingMode
from tests.relay.policies.samples import build_entity_draft, build_policy, build_regex_draft

SSN = r"\d{3}-\d{2}-\d{4}"


def regex(action: str = "MASK", streaming: str | None = None, pattern: str = SSN) -> Policy:
    return build_policy(build_regex_draft(pattern, action, streaming=streaming))


def presidio(action: str = "MASK", streaming: str | None = None) -> Policy:
    return build_policy({**build_entity_draft("US_SSN", action=action), "streaming": streaming})


@pytest.mark.parametrize(
    ("policies", "agent", "mode"),
    [
        ([], "whole", "events"),
        ([regex("LOG", "whole")], "whole", "events"),
        ([regex()], None, "window"),
        ([regex()], "window", "window"),
        ([regex()], "whole", "whole"),
        ([regex(streaming="whole")], "window", "whole"),
        ([regex(streaming="window")], "whole", "whole"),
        ([regex(streaming="whole")], "observe", "whole"),
        ([regex(pattern="a+")], None, "whole"),
        ([regex(pattern="a+", streaming="window")], "window", "whole"),
        ([regex(pattern="a+", streaming="observe")], None, "observe"),
        ([presidio()], None, "whole"),
        ([presidio()], "window", "window"),
        ([presidio(streaming="window")], None, "window"),
        ([presidio(streaming="window"), regex()], None, "window"),
        ([regex()], "observe", "observe"),
        ([regex("BLOCK")], "observe", "window"),
        ([regex("HUMAN_REVIEW_REQUIRED")], "observe", "window"),
        ([presidio("BLOCK")], "observe", "whole"),
        ([regex("BLOCK", "observe")], None, "observe"),
        ([regex("BLOCK", "observe")], "observe", "observe"),
        ([regex("BLOCK", "observe")], "window", "window"),
        ([regex("BLOCK", "observe"), regex()], None, "window"),
        ([regex(), regex(streaming="whole"), regex(streaming="observe")], None, "whole"),
    ],
)
def test_strictest_mode_counts(policies: list[Policy], agent: StreamingMode | None, mode: str) -> None:
    assert plan_stream(policies, agent).mode == mode
    assert plan_stream(reversed(policies), agent).mode == mode


def test_window_fits_the_widest_pattern() -> None:
    plan = plan_stream([regex(), regex(pattern="x{30}"), presidio(streaming="window")])
    assert (plan.finder.width, plan.has_unknown_width) == (30, True)
