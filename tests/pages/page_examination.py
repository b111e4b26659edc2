"""Examine many pages in a browser, each of them once."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, ViewportSize

from tests.pages.checks import PHONE, Findings, examine, settings_of
from tests.pages.site import Site, serving


def opened(
    browser: Browser, *, viewport: ViewportSize = PHONE, js: bool = True, examined: bool = False
) -> Page:
    context = browser.new_context(viewport=viewport, java_script_enabled=js)
    if examined:
        context.add_init_script(AXE_SCRIPT)
    page = context.new_page()
    page.set_default_timeout(60_000)
    return page


class Looks:
    """What must hold of every page; set `pages` to name -> HTML."""

    pages: ClassVar[Mapping[str, str]]

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls) -> Iterator[Site]:
        with serving(dict(cls.pages)) as served:
            yield served

    @pytest.fixture(scope="class")
    @classmethod
    def findings(cls, browser: Browser, site: Site, full: bool) -> Findings:
        """Examine every page in one size and theme, or in all combinations of them."""
        page, found, said = opened(browser, examined=True), Findings(), list[str]()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        for number, name in enumerate(cls.pages):
            said.clear()
            page.goto(f"{site.address}/{name}")
            examine(page, name, found, settings_of(number, full=full))
            # The browser has an opinion of its own on dates that people mistype.
            found.note("said", name, [text for text in said if "does not conform" not in text])
        page.context.close()
        return found

    @pytest.mark.timeout(600)
    def test_no_page_has_an_accessibility_violation(self, findings: Findings) -> None:
        assert findings.of("violations") == {}

    def test_no_page_scrolls_sideways(self, findings: Findings) -> None:
        assert findings.of("sideways") == {}

    def test_targets_are_large_enough_for_a_thumb(self, findings: Findings) -> None:
        assert findings.of("small targets") == {}

    def test_no_action_is_named_by_half_a_word(self, findings: Findings) -> None:
        assert findings.of("broken words") == {}

    def test_what_has_the_focus_is_never_hidden_under_the_bar(self, findings: Findings) -> None:
        assert findings.of("hidden focus") == {}

    def test_motion_is_short_and_can_be_turned_off(self, findings: Findings) -> None:
        assert findings.of("slow motion") == {}

    def test_controls_keep_their_outline_in_the_colours_of_the_system(self, findings: Findings) -> None:
        assert findings.of("borderless") == {}

    def test_on_paper_nothing_floats_over_the_text(self, findings: Findings) -> None:
        assert findings.of("floating in print") == {}

    def test_no_page_breaks_the_content_policy(self, findings: Findings) -> None:
        assert findings.of("said") == {}
