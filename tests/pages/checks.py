"""What a browser can say about a page that is open: scripts to ask it, and the answers put together."""

from collections.abc import Sequence
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize

from tests.waiting import eventually

PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 320, "height": 640}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ZOOMED: ViewportSize = {"width": 320, "height": 256}  # 1280 × 1024 at 400 %

EVERYTHING = {"resultTypes": ["violations"]}
# What depends on colours and places; the rest of a page is the same in every theme and at every width.
RENDERED = {
    **EVERYTHING,
    "runOnly": ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"],
}
# What a language changes: everything but colours.
LAID_OUT = {**EVERYTHING, "rules": {"color-contrast": {"enabled": False}}}
SIZES = {**EVERYTHING, "runOnly": ["scrollable-region-focusable", "target-size"]}
RUN_AXE = """options => axe.run(options).then(results => results.violations.map(one =>
  [one.id, one.nodes.slice(0, 4).map(node => node.html.slice(0, 160))]))"""

OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"

SMALL_TARGETS = """() => [...document.querySelectorAll(`
    button:not(.offscreen), summary, select, textarea, input[type=text], .card, .choice, .next
`)].filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 47.5)
   .map(each => each.outerHTML.slice(0, 80))"""

# Every control, focused as the Tab key would: some point of it, or of its label, is in sight.
HIDDEN_FOCUS = """() => {
  const seen = each => {
    const box = each.getBoundingClientRect();
    const points = [0.1, 0.5, 0.9].flatMap(x => [0.1, 0.5, 0.9].map(y =>
      [box.left + box.width * x, box.top + box.height * y]));
    return points.some(([x, y]) => {
      const top = document.elementFromPoint(x, y);
      return top && (each.contains(top) || top.contains(each) && !top.contains(document.body));
    });
  };
  const found = [];
  for (const each of document.querySelectorAll("a[href], button, summary, input, select, textarea")) {
    if (each.disabled || each.type === "hidden" || !each.checkVisibility() || each.matches(".skip")) continue;
    document.activeElement.blur();
    each.focus();
    if (document.activeElement !== each) continue;
    if (![each, ...(each.labels || [])].some(seen)) found.push(each.outerHTML.slice(0, 80));
  }
  return found;
}"""

# Colours of the system's choosing take backgrounds away: what can be pressed or typed into needs a border.
BORDERLESS = """() => [...document.querySelectorAll(`
    button:not(.offscreen), select, textarea, input[type=text], .card
`)].filter(each => {
  const style = getComputedStyle(each);
  return each.checkVisibility() && !parseFloat(style.borderTopWidth) && !parseFloat(style.borderBottomWidth);
}).map(each => each.outerHTML.slice(0, 80))"""

LONGEST_MOTION = """() => Math.max(0, ...[...document.querySelectorAll("*")].flatMap(each => {
  const style = getComputedStyle(each);
  return `${style.transitionDuration},${style.animationDuration}`.split(",").map(parseFloat);
}))"""

# A word of an action's name that has no room in its button.
BROKEN_WORDS = """() => [...document.querySelectorAll(".bar .name")].flatMap(name => {
  if (!name.checkVisibility()) return [];
  const style = getComputedStyle(name);
  const room = name.clientWidth;
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = style.font;
  return name.innerText.split(/\\s+/).filter(word => ruler.measureText(word).width > room + 0.5);
})"""

# In print nothing floats over the text.
FLOATING = """() => [...document.querySelectorAll("*")].filter(each =>
  each.checkVisibility() && ["fixed", "sticky"].includes(getComputedStyle(each).position)
).map(each => each.outerHTML.slice(0, 80))"""


class Findings:
    """What is wrong, by page, collected while pages are looked at."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def note(self, kind: str, where: str, what: Any) -> None:
        """Keep it if there is something."""
        if what:
            self.found.setdefault(kind, {})[where] = what

    def of(self, kind: str) -> dict[str, Any]:
        """All that was found of this kind."""
        return self.found.get(kind, {})


def painted(page: Page) -> Page:
    """The page, once it is seen: what is typed on a page before its first picture, a browser drops."""
    until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
    return page


def until(page: Page, expression: str) -> None:
    """Wait for it; Playwright's `wait_for_function` fails at its second look where a page forbids `eval`."""
    eventually(lambda: page.evaluate(expression))


def violations(page: Page, options: dict[str, Any] = EVERYTHING) -> list[Any]:
    """What axe-core finds wrong: the rule, and the elements that break it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: list[Any] = page.evaluate(RUN_AXE, options)
    return found


Theme = Literal["light", "dark"]
ALL_SETTINGS: tuple[tuple[ViewportSize, Theme], ...] = (
    (PHONE, "light"),
    (PHONE, "dark"),
    (DESK, "light"),
    (DESK, "dark"),
)


def settings_of(number: int, *, full: bool) -> tuple[tuple[ViewportSize, Theme], ...]:
    """Return the sizes and themes in which to examine the page of this number.

    That is one of the four combinations, so that four pages in a row have all of them; or all four.
    """
    return ALL_SETTINGS if full else (ALL_SETTINGS[number % len(ALL_SETTINGS)],)


def examine(
    page: Page, name: str, findings: Findings, settings: Sequence[tuple[ViewportSize, Theme]] = ALL_SETTINGS
) -> None:
    """Run axe on an open page in these sizes and themes, and measure it once at every width."""
    for number, (viewport, theme) in enumerate(settings):
        # Without motion: a colour on its way to another is neither.
        page.emulate_media(reduced_motion="reduce", color_scheme=theme)
        page.set_viewport_size(viewport)
        options = RENDERED if number else EVERYTHING
        where = f"{name}, {viewport['width']} px, {theme}"
        findings.note("violations", where, violations(page, options))
    page.emulate_media(color_scheme="light")
    for viewport in (DESK, PHONE, ZOOMED):
        page.set_viewport_size(viewport)
        where = f"{name}, {viewport['width']} × {viewport['height']} px"
        findings.note("sideways", where, page.evaluate(OVERFLOWS))
        if viewport is PHONE:
            findings.note("small targets", name, page.evaluate(SMALL_TARGETS))
            findings.note("broken words", name, page.evaluate(BROKEN_WORDS))
            findings.note("hidden focus", name, page.evaluate(HIDDEN_FOCUS))
    findings.note("hidden focus", f"{name} at 400 %", page.evaluate(HIDDEN_FOCUS))
    examine_preferences(page, name, findings)


MOTION: tuple[tuple[Literal["reduce", "no-preference"], float], ...] = (
    ("reduce", 0.01),
    ("no-preference", 0.15),
)


def examine_preferences(page: Page, name: str, findings: Findings) -> None:
    """Less motion, the system's own colours, paper."""
    for preference, most in MOTION:
        page.emulate_media(reduced_motion=preference)
        longest = page.evaluate(LONGEST_MOTION)
        findings.note("slow motion", f"{name}, {preference}", longest if longest > most else None)
    page.emulate_media(forced_colors="active")
    findings.note("borderless", name, page.evaluate(BORDERLESS))
    page.emulate_media(media="print", forced_colors="none")
    findings.note("floating in print", name, page.evaluate(FLOATING))
    page.emulate_media(media="screen", color_scheme="light")
