"""A case in, HTML out; no HTTP lives here."""

from assent.pages.renderer import STATIC, PageRenderer
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
    "STATIC",
    "ClosedView",
    "DemoLink",
    "HomeView",
    "MessageView",
    "PageRenderer",
    "PassOnView",
    "ReviewView",
    "Round",
]
