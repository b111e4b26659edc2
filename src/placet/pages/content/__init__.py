"""How anything that a service put into a case is shown: facts, tables, previews; never blank, never raw."""

from placet.pages.content import looks
from placet.pages.content.values import Values

__all__ = ["Values", "looks"]
