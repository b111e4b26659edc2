"""How anything that a service put into a case is shown: facts, tables, previews; never blank, never raw."""

from placet.pages.content import display_forms
from placet.pages.content.value_renderer import ValueRenderer

__all__ = ["ValueRenderer", "display_forms"]
