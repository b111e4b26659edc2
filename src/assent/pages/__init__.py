"""A case in, HTML out; no HTTP lives here."""

from assent.pages.assets import assets
from assent.pages.languages import Languages
from assent.pages.renderer import PageRenderer
from assent.pages.view import (
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
    "assets",
]
