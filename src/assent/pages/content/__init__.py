"""How anything that a service put into a case is shown: facts, tables, previews; never blank, never raw."""

from assent.pages.content import looks
from assent.pages.content.values import Values

__all__ = ["Values", "looks"]
