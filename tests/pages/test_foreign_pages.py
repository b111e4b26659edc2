"""The pages in scripts that read otherwise, and the heaviest ones, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from placet.pages.language import Language
from placet.pages.languages import languages
from tests.pages.checks import BROKEN_WORDS, LAID_OUT, NARROW, OVERFLOWS, SIZES, violations
from tests.pages.gallery import every_page, heavy_pages
from tests.pages.page_examination import opened
from tests.pages.site import Site, serving

HEAVY = heavy_pages()
FOREIGN = {code: languages().get(code) for code in ("ar", "zh")}


def spoken(language: Language) -> dict[str, str]:
    return {f"{language.code}/{name}": html for name, html in every_page(language).items()}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    foreign = [spoken(language) for language in FOREIGN.values()]
    with serving({**HEAVY, **foreign[0], **foreign[1]}) as served:
        yield served


@pytest.mark.timeout(600)
@pytest.mark.parametrize("code", FOREIGN)
def test_pages_of_other_scripts_are_as_accessible_and_as_narrow(
    browser: Browser, site: Site, code: str, full: bool
) -> None:
    page, found = opened(browser, viewport=NARROW, examined=True), {}
    page.emulate_media(reduced_motion="reduce")
    names = list(spoken(FOREIGN[code]))
    # Every third page in one of the languages, or every page in all of them.
    for name in names if full else names[list(FOREIGN).index(code) :: 3 * len(FOREIGN)]:
        page.goto(f"{site.address}/{name}")
        wrong = violations(page, LAID_OUT if code == "ar" else SIZES)
        if wrong or page.evaluate(OVERFLOWS):
            found[name] = wrong or "scrolls sideways"
        if page.evaluate(BROKEN_WORDS):
            found[name] = page.evaluate(BROKEN_WORDS)
    page.context.close()
    assert found == {}


@pytest.mark.parametrize("name", HEAVY)
def test_the_heaviest_pages_fit_a_narrow_phone(browser: Browser, site: Site, name: str) -> None:
    page = opened(browser, viewport=NARROW)
    page.goto(f"{site.address}/{name}", timeout=60_000)
    wide = page.evaluate(OVERFLOWS)
    page.context.close()
    assert not wide
