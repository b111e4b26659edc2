"""Approval for Temporal workflows; needs the temporal extra."""

from placet.hook.frameworks.temporal.activities import TemporalApproval
from placet.hook.frameworks.temporal.workflow_calls import ApprovedCalls

__all__ = ["ApprovedCalls", "TemporalApproval"]
