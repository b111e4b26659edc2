"""People's browsers: on a phone or at a desk, with scripts or without."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, ViewportSize

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


# Tabs that no test uses now, by the options of their contexts. To open a window costs as much as four pages.
_FREE_TABS: dict[str, list[Page]] = {}
_OPTIONS: dict[Page, dict[str, Any]] = {}


def take_tab(browser: Browser, **options: Any) -> Page:
    """Return a tab without cookies in a context with these options, until `give_back`."""
    free = _FREE_TABS.get(repr(options), [])
    while free:
        page = free.pop()
        if not page.is_closed():
            return page
    page = open_tab(browser, **options)
    _OPTIONS[page] = options
    return page


def open_tab(browser: Browser, **options: Any) -> Page:
    """Return a new tab in a new context with these options."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def give_back(page: Page) -> None:
    """Bring a tab back to where it began, and keep it for the next test that needs the same options."""
    for other in page.context.pages:
        if other is not page:
            other.close()
    page.context.set_offline(False)
    page.context.clear_cookies()
    page.unroute_all(behavior="ignoreErrors")
    page.on("dialog", Dialog.accept)  # the page may ask whether to leave it
    page.goto("about:blank")
    page.remove_listener("dialog", Dialog.accept)
    page.emulate_media(media="null", color_scheme="null", reduced_motion="null", forced_colors="null")
    page.set_viewport_size(_OPTIONS[page]["viewport"])
    _FREE_TABS.setdefault(repr(_OPTIONS[page]), []).append(page)


@contextmanager
def visiting(
    browser: Browser,
    size: ViewportSize = PHONE,
    *,
    quiet_console: bool = False,
    shared: bool = True,
    **options: Any,
) -> Iterator[Page]:
    """A person's browser; what goes wrong in a page fails the test, and so may any error in its console.

    A test that looks at what a tab stores, or leaves a clock or a listener in it, sets `shared` to False.
    """
    page = (take_tab if shared else open_tab)(browser, viewport=size, **options)
    with watched(page, quiet_console=quiet_console):
        yield page
    if shared:
        give_back(page)
    else:
        page.context.close()


@contextmanager
def watched(page: Page, *, quiet_console: bool = False) -> Iterator[Page]:
    """Watch a page; errors of its scripts, and with `quiet_console` errors in its console, fail the test."""
    troubles: list[str] = []

    def note_error(error: Error) -> None:
        troubles.append(str(error))

    def note_message(message: ConsoleMessage) -> None:
        if quiet_console and message.type == "error":
            troubles.append(message.text)

    page.on("pageerror", note_error)
    page.on("console", note_message)
    try:
        yield page
    finally:
        page.remove_listener("pageerror", note_error)
        page.remove_listener("console", note_message)
    # A page may answer 400.
    assert [trouble for trouble in troubles if "(Bad Request)" not in trouble] == []


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
