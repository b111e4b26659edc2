"""Renders a case as HTML. No HTTP."""

from placet.pages.assets import read_assets
from placet.pages.languages import Languages
from placet.pages.renderer import PageRenderer
from placet.pages.view import (
    ClosedView,
    DemoLink,
    HomeView,
    MessageView,
    PassOnView,
    ReviewView,
    Round,
)

__all__ = [
    "ClosedView",
    "DemoLink",
    "HomeView",
    "Languages",
    "MessageView",
    "PageRenderer",
    "PassOnView",
    "ReviewView",
    "Round",
    "read_assets",
]
