"""A person with a browser: opens the link that an agent passed on, fills in the form, presses a button."""

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx

from examples.play.transcript import say
from examples.stage import PATIENCE_S, answer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Fields = Mapping[str, str | Sequence[str]]


class Person:
    """Somebody who reads messages while the agent waits: in Chromium where it is there, else without scripts.

    Leaving the `with` block waits for the last answer, and raises what went wrong with any of them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.saw: list[str] = []
        """What each page said."""
        self._hands = ThreadPoolExecutor(max_workers=1)  # Playwright's sync face stays in one thread
        self._desk = ExitStack()
        self._browser: Browser | None = None
        self._answers: list[Future[None]] = []

    def opens(self, review_url: str, action: str, fields: Fields | None = None) -> None:
        """Open the link and answer. Returns at once, as sending a message does."""
        self._answers.append(self._hands.submit(self._answer, review_url, action, fields or {}))

    def _answer(self, review_url: str, action: str, fields: Fields) -> None:
        say(self.name, f"opens the link and answers: {action}")
        if self._browser is None:
            self.saw.append(httpx.get(review_url, follow_redirects=True, timeout=PATIENCE_S).text)
            answer(review_url, action, fields)
        else:
            page = self._browser.new_page()
            page.set_default_timeout(PATIENCE_S * 1000)
            page.goto(review_url)
            self.saw.append(page.locator("main").inner_text())
            _fill(page, fields)
            page.locator(f'.bar button[name="action"][value="{action}"]').click()
            page.locator("form.answer").wait_for(state="detached")
            page.close()

    def __enter__(self) -> Self:
        self._hands.submit(self._sit_down).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hands.submit(self._desk.close)
        self._hands.shutdown()
        for given in self._answers:
            given.result()

    def _sit_down(self) -> None:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        if chromium is None or find_spec("playwright") is None:
            say(self.name, "has a browser without scripts")
            return
        from playwright.sync_api import sync_playwright

        playwright = self._desk.enter_context(sync_playwright())
        self._browser = playwright.chromium.launch(executable_path=chromium)
        self._desk.callback(self._browser.close)
        say(self.name, "has Chromium")


def _fill(page: "Page", fields: Fields) -> None:
    for name, value in fields.items():
        if isinstance(value, str):
            box = page.locator(f'[name="{name}"]')
            if not box.is_visible():
                page.locator("details", has=box).locator("summary").click()
            box.fill(value)
        else:
            for one in value:
                page.locator(f'[name="{name}"][value="{one}"]').check()
