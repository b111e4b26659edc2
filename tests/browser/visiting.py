"""People's browsers: on a phone or at a desk, with scripts or without."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.pages.checks import DESK, PHONE

PATIENCE_MS = 60_000

Way = tuple[bool, ViewportSize]
"""With scripts or without, and on which device."""
WAYS: dict[str, Way] = {
    "phone with scripts": (True, PHONE),
    "phone without scripts": (False, PHONE),
    "desk with scripts": (True, DESK),
    "desk without scripts": (False, DESK),
}
# What is not about sizes is tried on one device with scripts and on another without.
BOTH = pytest.mark.parametrize(
    "way", [(True, PHONE), (False, DESK)], ids=["phone with scripts", "desk without scripts"]
)


@contextmanager
def visiting(
    browser: Browser, size: ViewportSize = PHONE, *, quiet_console: bool = False, **options: Any
) -> Iterator[Page]:
    """A person's browser; what goes wrong in a page fails the test, and so may any error in its console."""
    context = browser.new_context(viewport=size, **options)
    context.set_default_timeout(PATIENCE_MS)
    try:
        with watched(context.new_page(), quiet_console=quiet_console) as page:
            yield page
    finally:
        context.close()


@contextmanager
def watched(page: Page, *, quiet_console: bool = False) -> Iterator[Page]:
    """A page that is closed in the end; what went wrong in it fails the test."""
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    if quiet_console:
        page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    try:
        yield page
    finally:
        page.close()
    # A page may answer 400.
    assert [trouble for trouble in troubles if "(Bad Request)" not in trouble] == []


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
