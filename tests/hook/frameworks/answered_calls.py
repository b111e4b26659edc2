"""What a reviewer said about a call, as a stored verdict."""

from placet.hook import FeedbackResult
from placet.hook.feedback import ToolFeedback, Verdict


def parse_verdict(call: ToolFeedback) -> Verdict:
    """Return the verdict of an answered call."""
    assert call.result is not None
    edited = call.result is FeedbackResult.EDITED
    return Verdict(
        decision=call.result,
        arguments=call.arguments if edited else None,
        reason=call.reason,
        answer=call.answer,
    )
