"""GET only reads (ruling 4): a program that opens every link of every page changes nothing in the store."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from msgspec import Struct
from playwright.sync_api import Browser, Page

from placet.reviews.registry import REVIEW_TYPES, load_custom_type
from tests.pages.checks import until
from tests.server.database_file import read_rows
from tests.server.running import RunningServer, eventually, running
from tests.server.scanners import SCANNERS, Scanner

MOST_LINKS = 400
# Nothing that a page answers with tells anyone, keeps anything elsewhere or lets others in.
ALLOWED_HEADERS = {
    *("allow", "cache-control", "content-length", "content-type", "content-encoding", "date", "etag"),
    *(
        "link",
        "location",
        "retry-after",
        "server",
        "transfer-encoding",
        "vary",
        "x-accel-buffering",
        "connection",
    ),
    *("content-language", "content-security-policy", "cross-origin-opener-policy", "permissions-policy"),
    *("cross-origin-resource-policy", "referrer-policy", "x-content-type-options", "x-frame-options"),
    *("x-robots-tag", "x-request-id", "traceparent", "www-authenticate", "set-cookie"),
}
ADDRESSES = re.compile(r"""\b(?:href|src|action|formaction|data-[\w-]*url|data-[\w-]*href)="([^"]+)\"""")


class SampleCases(Struct, frozen=True, kw_only=True):
    """The cases that were asked: their links, by what became of them."""

    links: dict[str, str]
    waiting: dict[str, str]
    """Where to poll those that still wait."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scanned")


@pytest.fixture(scope="module")
def scanned_server(folder: Path) -> Iterator[RunningServer]:
    with running(folder, polls_per_minute=0) as server:
        yield server


@pytest.fixture(scope="module")
def owner(scanned_server: RunningServer) -> Iterator[httpx.Client]:
    with scanned_server.client(scanned_server.api_key) as client:
        yield client


@pytest.fixture(scope="module")
def sample_cases(scanned_server: RunningServer, owner: httpx.Client) -> SampleCases:
    """A case of every type, and one for every way a case can end."""
    late = scanned_server.open(owner, timeout="5m", prompt="Late")
    scanned_server.advance(minutes=10)
    scanned_server.sweep()
    opened = {
        kind.name: scanned_server.open(owner, **kind.example())
        for kind in (*REVIEW_TYPES.values(), load_custom_type())
    }
    done, withdrawn = (
        scanned_server.open(owner, prompt="Done"),
        scanned_server.open(owner, prompt="Withdrawn"),
    )
    with scanned_server.page(done) as page:
        assert page.post("respond", {"action": "confirm"}).response.status_code == 200
    assert owner.post(f"/v1/reviews/{withdrawn['case_id']}/cancel", json={}).status_code == 200
    ended = {"late": late, "done": done, "withdrawn": withdrawn}
    return SampleCases(
        links={name: hitl["review_url"] for name, hitl in {**opened, **ended}.items()},
        waiting={name: hitl["poll_url"] for name, hitl in opened.items()},
    )


class Crawl:
    """One scanner at work: it opens what it was given, and every link it finds there."""

    def __init__(self, scanner: Scanner, client: httpx.Client, origin: str) -> None:
        self._scanner = scanner
        self._client = client
        self._origin = origin
        self.headers: set[str] = set()
        self.cookies: set[str] = set()
        self.statuses: dict[str, int] = {}

    def open(self, address: str) -> None:
        """Fetch this and, if it is in the habit of that, whatever it links to."""
        waiting = [address]
        while waiting and len(self.statuses) < MOST_LINKS:
            link = waiting.pop(0)
            if link not in self.statuses:
                found = [self._fetch(method, link) for method in self._scanner.methods][-1]
                waiting += found if self._scanner.follows_links or link == address else []

    def _fetch(self, method: str, link: str) -> list[str]:
        if not self._scanner.keeps_cookies:
            self._client.cookies.clear()
        headers = {"user-agent": self._scanner.agent, **self._scanner.headers}
        with self._client.stream(method, link, headers=headers) as response:
            self.statuses[link] = response.status_code
            for one in (*response.history, response):
                self.headers |= set(one.headers)
                names = [line.partition("=")[0] for line in one.headers.get_list("set-cookie")]
                self.cookies |= {name.partition(".")[0] for name in names}
            # A stream of events has no end to wait for.
            if not response.headers.get("content-type", "").startswith("text/html"):
                return []
            text = response.read().decode()
        return self._links(str(response.url), text)

    def _links(self, base: str, html: str) -> list[str]:
        if not self._scanner.tries_forms:
            html = re.sub(r'\b(?:form)?action="[^"]+"', "", html)
        found = [urljoin(base, unescape(address)) for address in ADDRESSES.findall(html)]
        return [link.partition("#")[0] for link in found if link.startswith(self._origin)]


@pytest.mark.parametrize("scanner", SCANNERS, ids=lambda scanner: scanner.name)
def test_a_scanner_that_opens_every_link_changes_nothing(
    scanned_server: RunningServer,
    owner: httpx.Client,
    sample_cases: SampleCases,
    folder: Path,
    scanner: Scanner,
    full: bool,
) -> None:
    before = read_rows(folder / "cases.db")
    # Each scanner opens a third of the cases, so that each case is opened by a third of the scanners.
    links = (
        list(sample_cases.links.values())
        if full
        else list(sample_cases.links.values())[SCANNERS.index(scanner) % 3 :: 3]
    )
    with scanned_server.client(follow_redirects=scanner.follows_redirects) as client:
        crawl = Crawl(scanner, client, scanned_server.url)
        for link in [*links, f"{scanned_server.url}/", f"{scanned_server.url}/robots.txt"]:
            crawl.open(link)
    assert read_rows(folder / "cases.db") == before
    assert {owner.get(url).json()["status"] for url in sample_cases.waiting.values()} == {"pending"}
    assert crawl.headers <= ALLOWED_HEADERS
    assert crawl.cookies <= {"placet_case", "placet_lang", "placet_style"}
    assert all(status < 500 for status in crawl.statuses.values())
    if scanner.follows_links and scanner.follows_redirects and scanner.keeps_cookies:
        assert len(crawl.statuses) > len(links) * 2


def test_there_are_twenty_scanners_and_more() -> None:
    assert len({scanner.name for scanner in SCANNERS}) == len(SCANNERS) >= 20


# What a scanner that runs scripts has before it: a page that nobody looks at.
UNSEEN = """
  Object.defineProperty(Document.prototype, "visibilityState", { get: () => "hidden" });
  Object.defineProperty(Document.prototype, "hidden", { get: () => true });
"""
SCRIPTS_LOADED = """() => performance.getEntriesByType("resource")
  .filter(one => one.name.endsWith(".js") && one.responseEnd > 0).length >= 2"""


@pytest.fixture
def renderer(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(user_agent=f"Mozilla/5.0 (X11; Linux x86_64) {'HeadlessChrome/124.0.0.0'}")
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def test_a_scanner_that_runs_scripts_behind_the_scenes_changes_nothing(
    scanned_server: RunningServer, sample_cases: SampleCases, folder: Path, renderer: Page
) -> None:
    before = read_rows(folder / "cases.db")
    renderer.add_init_script(UNSEEN)
    posted: list[str] = []
    renderer.on("request", lambda one: posted.append(one.url) if one.method != "GET" else None)
    for name in sample_cases.waiting:
        renderer.goto(sample_cases.links[name])
        until(renderer, SCRIPTS_LOADED)
    renderer.goto(f"{scanned_server.url}/healthz")
    assert posted == []
    assert read_rows(folder / "cases.db") == before


def test_a_scanner_that_shows_itself_the_page_counts_as_a_visitor_and_answers_nothing(
    scanned_server: RunningServer, owner: httpx.Client, folder: Path, renderer: Page
) -> None:
    """The limit of it: a program that behaves like a browser in someone's hand cannot be told from one."""
    hitl = scanned_server.open(owner, prompt="Seen?")

    def poll() -> dict[str, Any]:
        found: dict[str, Any] = owner.get(hitl["poll_url"]).json()
        return found

    renderer.goto(hitl["review_url"])
    eventually(lambda: poll()["status"] == "opened")
    assert "result" not in poll()
    assert scanned_server.run(scanned_server.parts.store.get_draft(hitl["case_id"])) is None
