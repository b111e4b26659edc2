"""Approval for smolagents; needs the smolagents extra."""

from placet.hook.frameworks.smolagents.tools import SmolagentsApproval

__all__ = ["SmolagentsApproval"]
