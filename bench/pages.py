"""Pages: what the heaviest cost, whom they keep waiting, and how soon one is usable over a slow network."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any

import httpx
import msgspec
from msgspec import Struct
from playwright.sync_api import Browser, sync_playwright

from bench import heavy
from bench.drafts import DRAFT
from bench.process import Server
from bench.rows import LATENCY_MS
from scripts import browser as chromium

DOWN, UP = 1_600_000 / 8, 750_000 / 8  # bytes per second
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
# Looks at every frame, from the first on, until the page can be used; a blank one, until it is there.
USABLE = """
  const looks = () => {
    const button = document.querySelector(".bar button:not(:disabled)");
    const styled = button && button.getBoundingClientRect().height >= 48;
    const blank = document.contentType === "application/json" && document.readyState === "complete";
    if (blank || styled && button.checkVisibility()) window.usableAfter = performance.now();
    else requestAnimationFrame(looks);
  };
  requestAnimationFrame(looks);
"""
ROUNDS = 3
SLICE_S = 2.0


class Reader(Struct, frozen=True):
    """Someone with the page of a case before them: where it is, and the cookie that opens it."""

    url: str
    cookie: str

    def read(self, client: httpx.Client) -> float:
        """Fetch the page; returns how long that took."""
        began = time.monotonic()
        client.get(self.url, headers={"cookie": self.cookie}).raise_for_status()
        return time.monotonic() - began


class Pages:
    """Measures the rows about pages on one server."""

    def __init__(self, server: Server, key: str) -> None:
        self._server = server
        self._client = httpx.Client(base_url=server.url, timeout=60)
        self._key = {"Authorization": f"Bearer {key}"}

    def measure(self, row: str) -> float:
        """The figure of this row."""
        named: dict[str, Callable[[], float]] = {
            "page_turn": self.longest_turn,
            "page_polls": self.slower_polls,
            "page_trips": self.round_trips,
            "page_usable": self.time_until_usable,
        }
        return named[row]() if row in named else self.times_heavier(*heavy.build_pairs()[row])

    def times_heavier(self, large: dict[str, Any], small: dict[str, Any]) -> float:
        """What the server spends on a page with much in it, in pages with next to nothing in them."""
        much, little = self._reader(large), self._reader(small)
        ratios = [self._cost(much, 3) / self._cost(little, 100) for _ in range(ROUNDS)]
        return statistics.median(ratios)

    def longest_turn(self) -> float:
        """The longest that the loop was busy with heavy pages at a stretch, in the cost of ordinary ones."""
        ordinary = self._cost(self._reader(DRAFT), 100)
        with read_pages_in_background(self._heavy()):
            self._server.start_turns()
            self._polls()
            return self._server.stop_turns().longest_turn_s / ordinary

    def slower_polls(self) -> float:
        """The p99 of polls while heavy pages are made, against polls alone."""
        ratios = []
        for _ in range(ROUNDS):
            alone = percentile_99(self._polls())
            with read_pages_in_background(self._heavy()):
                ratios.append(percentile_99(self._polls()) / alone)
        return statistics.median(ratios)

    def round_trips(self) -> float:
        """Round trips from a link in a message to a page to answer on, beyond those of a blank page.

        What a longer way adds to the time is counted, so neither bytes nor processors matter.
        """
        with open_browser() as browser:
            far, near = [
                statistics.median(
                    usable_after(browser, self._open(DRAFT)["review_url"], latency=latency)
                    - usable_after(browser, self._blank, latency=latency)
                    for _ in range(ROUNDS)
                )
                for latency in (3 * LATENCY_MS, LATENCY_MS)
            ]
        return (far - near) / (2 * LATENCY_MS)

    def time_until_usable(self) -> float:
        """How much later than a blank page the page itself can be used, in round trips."""
        reader = self._reader(DRAFT)
        with open_browser() as browser:
            later = [
                usable_after(browser, reader.url, cookie=reader.cookie) - usable_after(browser, self._blank)
                for _ in range(ROUNDS)
            ]
        return statistics.median(later) / LATENCY_MS

    def _heavy(self) -> list[Reader]:
        return [self._reader(large) for large, _ in heavy.build_pairs().values()]

    @property
    def _blank(self) -> str:
        return f"{self._server.url}/bare/page"

    def _open(self, draft: dict[str, Any]) -> dict[str, Any]:
        opened = self._client.post("/v1/cases", json=draft, headers=self._key).raise_for_status()
        found: dict[str, Any] = msgspec.json.decode(opened.content)["hitl"]
        return found

    def _reader(self, draft: dict[str, Any]) -> Reader:
        entered = self._client.get(self._open(draft)["review_url"])
        cookie = entered.headers["set-cookie"].partition(";")[0]
        reader = Reader(f"{self._server.url}{entered.headers['location']}", cookie)
        reader.read(self._client)
        return reader

    def _cost(self, reader: Reader, times: int) -> float:
        before = self._server.usage().cpu_s
        for _ in range(times):
            reader.read(self._client)
        return (self._server.usage().cpu_s - before) / times

    def _polls(self) -> list[float]:
        """How long each poll took, one after the other for a while."""
        url = f"/v1/reviews/{self._open(DRAFT)['case_id']}/status"
        took: list[float] = []
        last = time.monotonic() + SLICE_S
        while (began := time.monotonic()) < last:
            self._client.get(url, headers=self._key).raise_for_status()
            took.append(time.monotonic() - began)
        return took


@contextmanager
def read_pages_in_background(readers: list[Reader]) -> Iterator[None]:
    """Someone reads these pages again and again meanwhile, from a process of its own."""
    spawning = multiprocessing.get_context("spawn")
    begun = spawning.Event()
    process = spawning.Process(target=read_on, args=(readers, begun), daemon=True)
    process.start()
    try:
        if not begun.wait(60):
            raise RuntimeError("Nobody came to read.")
        yield
    finally:
        process.terminate()
        process.join(10)


def read_on(readers: list[Reader], begun: Event) -> None:
    """One page after the other, until ended."""
    with httpx.Client(timeout=60) as client:
        while True:
            for reader in readers:
                reader.read(client)
            begun.set()


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=FLAGS)
        yield browser
        browser.close()


def usable_after(
    browser: Browser, link: str, *, cookie: str | None = None, latency: int = LATENCY_MS
) -> float:
    """Milliseconds from following the link to a page that can be used, for a browser that was never here."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    if cookie:
        name, _, value = cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": link}])
    page = context.new_page()
    page.add_init_script(USABLE)
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    slow = {"offline": False, "latency": latency, "downloadThroughput": DOWN, "uploadThroughput": UP}
    wire.send("Network.emulateNetworkConditions", slow)
    page.goto(link, wait_until="commit")
    found: float = page.wait_for_function("() => window.usableAfter", timeout=60_000).json_value()
    context.close()
    return found


def percentile_99(took: list[float]) -> float:
    """All but the slowest hundredth are faster."""
    return sorted(took)[int(len(took) * 0.99)]
