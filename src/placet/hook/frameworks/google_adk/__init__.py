"""Approval for Google's Agent Development Kit; needs the google-adk extra."""

from placet.hook.frameworks.google_adk.plugin import ApprovalPlugin

__all__ = ["ApprovalPlugin"]
