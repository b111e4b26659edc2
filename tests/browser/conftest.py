"""A server with its agent, and a person with a browser."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import PATIENCE_MS, WAYS, Way, visiting
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


@pytest.fixture
def page(browser: Browser, way: Way) -> Iterator[Page]:
    """A browser in someone's hands."""
    with visiting(browser, way[1], java_script_enabled=way[0], quiet_console=True) as page:
        yield page
