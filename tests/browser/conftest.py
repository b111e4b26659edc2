"""A server with its agent, and a person with a browser."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.visiting import PATIENCE_MS, WAYS, Way, watched
from tests.server.running import RunningServer, running

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server"), present=True) as server:
        yield server


@pytest.fixture(scope="module")
def agent(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as client:
        yield client


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def scripts(way: Way) -> bool:
    return way[0]


@pytest.fixture(scope="module")
def browsers(browser: Browser) -> Iterator[Callable[[Way], BrowserContext]]:
    """One browser for each way, for all tests of a file: to start one takes long."""
    begun: dict[str, BrowserContext] = {}

    def find(way: Way) -> BrowserContext:
        if str(way) not in begun:
            begun[str(way)] = context = browser.new_context(java_script_enabled=way[0], viewport=way[1])
            context.set_default_timeout(PATIENCE_MS)
            context.new_page()  # keeps the window: each test opens a tab in it, which costs less
        return begun[str(way)]

    yield find
    for context in begun.values():
        context.close()


@pytest.fixture
def page(browsers: Callable[[Way], BrowserContext], way: Way) -> Iterator[Page]:
    """A browser in someone's hands, who was nowhere yet."""
    context = browsers(way)
    context.clear_cookies()
    with watched(context.new_page(), quiet_console=True) as page:
        yield page
