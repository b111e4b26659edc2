"""Previews in a real browser: nothing is fetched, nothing runs, everything is reached by keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.pages.bodies import IMAGE
from tests.pages.checks import painted, until
from tests.pages.gallery import offer_of, rendered, review_view
from tests.pages.site import Site, serving

CODE = "\n".join(f"def step_{number}(): return {'x' * 200!r}" for number in range(200))
MARKDOWN = (
    "# News\n\n![far](https://evil.example/a.png) ![own](/own.png) [apple.com](https://evil.example/)\n\n"
    "<img src=https://evil.example/b.png onerror=window.pwned=1>\n\n<script>window.pwned=1</script>\n\n"
    "[press](javascript:window.pwned=1) ![x](javascript:window.pwned=1)"
)
HTML = "<p>Dear <b>members</b></p><img src=https://evil.example/c.png onerror=window.pwned=1>"


def page_of(artifact: object, **context: object) -> str:
    body = {"type": "approval", "prompt": "May it?", "context": {"artifact": artifact, **context}}
    return rendered(review_view(offer_of(body)))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    pages = {
        "markdown": page_of(MARKDOWN, artifact_format="markdown"),
        "html": page_of({"body_html": HTML, "image": IMAGE, "logo": "https://evil.example/d.png"}),
        "code": page_of({"language": "python", "content": CODE}),
        "long": page_of("\n".join(f"Line {number}" for number in range(300))),
        "marks": page_of({"file": "invoice\u202efdp.exe"}),
    }
    with serving(pages) as served:
        yield served


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 360, "height": 720})
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    context.close()


def test_nothing_is_fetched_from_elsewhere_and_nothing_runs(page: Page, site: Site) -> None:
    asked: list[str] = []
    said: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.on("console", lambda message: said.append(message.text))
    for name in ("markdown", "html"):
        page.goto(f"{site.address}/{name}")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        page.wait_for_load_state()
        assert page.evaluate("window.pwned") is None
    assert [url for url in asked if not url.startswith((site.address, "data:"))] == []
    assert [text for text in said if "404" not in text] == []


def test_an_allowed_picture_is_drawn(page: Page, site: Site) -> None:
    page.goto(f"{site.address}/html")
    picture = page.get_by_role("img", name="Image", exact=True)
    picture.scroll_into_view_if_needed()
    until(page, "document.querySelector('.said img').naturalWidth === 1")


def test_code_scrolls_sideways_by_keyboard_while_the_page_does_not(page: Page, site: Site) -> None:
    page.goto(f"{site.address}/code")
    listing = page.get_by_role("group", name="Code").first
    painted(page)
    listing.focus()
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('pre.code').scrollLeft > 0")
    assert page.evaluate("document.documentElement.scrollWidth === document.documentElement.clientWidth")


def test_a_fold_opens_by_keyboard_and_goes_on_counting_lines(page: Page, site: Site) -> None:
    page.goto(f"{site.address}/code")
    painted(page).get_by_text("Show all 200 lines").focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.listing > details').open")
    assert page.locator(".listing").get_by_text("step_199()").is_visible()
    page.goto(f"{site.address}/long")
    assert not page.locator(".lines").get_by_text("Line 299").is_visible()
    page.get_by_text("Show all 300 lines").click()
    expect(page.locator(".lines").get_by_text("Line 299")).to_be_visible()


def test_a_mark_is_read_out_by_what_it_does(page: Page, site: Site) -> None:
    page.goto(f"{site.address}/marks")
    assert page.get_by_role("img", name="character that changes the direction of text, U+202E").is_visible()
