"""Approval for Strands Agents; needs the strands extra."""

from placet.hook.frameworks.strands.plugin import StrandsApproval

__all__ = ["StrandsApproval"]
