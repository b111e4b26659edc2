"""Thousands of hostile texts in every place of every page, in a real browser: nothing of them comes alive."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.pages.gallery import every_page
from tests.pages.hostile import hostile_pages
from tests.pages.payloads import ALL
from tests.pages.site import Site, serving

# Runs before anything of the page does.
WATCH = """
  window.reports = [];
  document.addEventListener("securitypolicyviolation", found =>
    reports.push(`policy: ${found.effectiveDirective} ${found.blockedURI} ${found.sample}`));
"""

# What a page must not hold, wherever it came from.
STRANGE = """() => {
  const found = [...reports];
  if (window.pwned !== undefined) found.push("a script ran");
  const never = "iframe, frame, object, embed, applet, base, marquee, math, video, audio";
  const path = /^\\/(?![\\/\\\\])/, picture = /^data:image\\/(png|jpe?g|gif|webp);/i;
  const leads = value => /^(#|\\?|https?:|mailto:|tel:|data:,$)/i.test(value) || path.test(value);
  const loads = value => path.test(value) || picture.test(value);
  const rules = {
    href: leads, "xlink:href": leads, src: loads, srcset: loads, poster: loads, data: loads,
    action: value => path.test(value), formaction: value => path.test(value),
  };
  const brief = each => each.outerHTML.slice(0, 120);
  for (const each of document.querySelectorAll(never)) found.push(`element ${brief(each)}`);
  for (const each of document.querySelectorAll("*")) {
    if (each.localName.startsWith("evil")) found.push(`element ${brief(each)}`);
    for (const { name, value } of each.attributes) {
      const never = /^(evil|on)|^(style|srcdoc|ping|background)$/.test(name);
      if (never || rules[name] && !rules[name](value)) found.push(`attribute ${name} of ${brief(each)}`);
    }
    if (each.localName === "a" && /^https?:/.test(each.getAttribute("href") || "")
        && !(each.relList.contains("noreferrer") && each.relList.contains("noopener")))
      found.push(`link that tells where it came from: ${brief(each)}`);
  }
  return found.slice(0, 5);
}"""

# A person who opens everything and changes every text a little: what the page's scripts wait for.
MEDDLE = """async () => {
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  const texts = [...document.querySelectorAll("textarea, input[type=text], input[type=search]")].slice(0, 60);
  for (const each of texts) {
    each.value += each.value.slice(0, 200) + " <evil-typed onclick=window.pwned=1>";
    each.dispatchEvent(new InputEvent("input", { bubbles: true }));
    each.dispatchEvent(new Event("change", { bubbles: true }));
  }
  for (const each of [...document.querySelectorAll("input[type=checkbox], input[type=radio]")].slice(0, 20)) {
    each.checked = true;
    each.dispatchEvent(new Event("change", { bubbles: true }));
  }
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


class Watch:
    """A browser page, and everything out of order that it was seen to do."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.seen: list[str] = []
        self._site = site
        page.add_init_script(WATCH)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("dialog", self._asked)
        page.on("request", self._requested)
        page.on("popup", lambda popup: self.seen.append(f"popup: {popup.url}"))

    def visit(self, name: str, html: str, *, meddle: bool = True) -> list[str]:
        """What was seen on this page, and after someone meddled with it."""
        self.seen = []
        self._site.pages = {name: html}
        self.page.goto(f"{self._site.address}/{name}")
        strange: list[str] = self.page.evaluate(STRANGE)
        if meddle:
            self.page.evaluate(MEDDLE)
            strange += self.page.evaluate(STRANGE)
        return self.seen + strange

    def _said(self, message: Any) -> None:
        # The browser has an opinion of its own on values that do not fit, and on paths without a file.
        harmless = ("does not conform", "404 (Not Found)")
        if not any(words in message.text for words in harmless):
            self.seen.append(f"console: {message.text}")

    def _asked(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":
            dialog.accept()
            return
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((f"{self._site.address}/", "data:")):
            self.seen.append(f"request: {request.url}")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving({}) as served:
        yield served


@pytest.fixture(scope="module")
def watch(browser: Browser, site: Site) -> Iterator[Watch]:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.set_default_timeout(60_000)
    yield Watch(context.new_page(), site)
    context.close()


def test_there_are_thousands_of_payloads_and_no_two_are_the_same() -> None:
    assert len(set(ALL)) == len(ALL) >= 2000


def test_the_watch_notices_what_gets_through(watch: Watch) -> None:
    leak = "<p evil>x</p><p style='color:red'>x</p><script>window.pwned=1</script>"
    html = f"<!doctype html><title>x</title>{leak}"
    assert len(watch.visit("leaky", html)) >= 3


def test_the_watch_is_content_with_ordinary_pages(watch: Watch) -> None:
    pages = every_page()
    names = [name for name in pages if name.startswith(("open-", "closed-", "wizard-"))]
    assert {name: seen for name in names[::3] if (seen := watch.visit(name, pages[name]))} == {}


@pytest.mark.timeout(900)
def test_no_hostile_text_comes_alive_in_any_place_of_any_page(watch: Watch, full: bool) -> None:
    found, sorts = {}, Counter[str]()
    for name, html in hostile_pages(ALL, full=full):
        sort = name.rpartition("-")[0]
        sorts[sort] += 1
        # What the scripts of a page do with its texts, one page of each sort shows.
        if seen := watch.visit(name, html, meddle=sorts[sort] == 1):
            found[name] = seen[:5]
    assert len(sorts) > 20
    assert not full or sorts.total() > 150
    assert found == {}
