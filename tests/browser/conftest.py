"""A server with its agent, and a person with a browser."""

from collections.abc import Iterator
from zlib import crc32

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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test in both sizes, once with and once without scripts; with --full in all four combinations.

    Which size has scripts alternates from test to test, so that all combinations occur in every run.
    """
    is_given = any("way" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "way" in metafunc.fixturenames and not is_given:
        names = list(WAYS)
        if not metafunc.config.getoption("--full"):
            names = names[::3] if crc32(metafunc.function.__name__.encode()) % 2 else names[1:3]
        metafunc.parametrize("way", [WAYS[name] for name in names], ids=names)


@pytest.fixture
def scripts(way: Way) -> bool:
    return way[0]


@pytest.fixture
def page(browser: Browser, way: Way) -> Iterator[Page]:
    """A browser in someone's hands, who was nowhere yet."""
    scripts, size = way
    with visiting(browser, size, quiet_console=True, java_script_enabled=scripts) as page:
        yield page
