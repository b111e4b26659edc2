"""Render the content of a case, which may be any JSON, as facts, tables and previews."""

from placet.pages.content import display_forms
from placet.pages.content.value_renderer import ValueRenderer

__all__ = ["ValueRenderer", "display_forms"]
