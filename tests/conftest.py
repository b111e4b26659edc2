"""Fixtures of all tests: one event loop backend, a real browser, and the choice among combinations."""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

from scripts import browser as chromium
from tests.combinations import choose_rows

# The same examples on every run; `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("few", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("full", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)

# A shell ignores SIGINT for programs that it starts in the background. What tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test needs the public certificate authorities, and loading them takes as long as twenty requests.
# Clients here and in the programs that tests start trust one certificate, of which nobody has the key.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("unused_authority.pem"))

# The address bar of every window loads pages itself, which cost more than ours. Chromium reads only the last
# list of features, so this one repeats those that Playwright turns off.
UNUSED_FEATURES = (
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "WebUIOmniboxPopup",
    "InitialWebUI",
    "PreloadTopChromeWebUI",
    "WebUIReloadButton",
    "WebUIToolbar",
    "SpareRendererForSitePerProcess",
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
BROWSER_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",
    "--renderer-process-limit=1",
    f"--disable-features={','.join(UNUSED_FEATURES)}",
]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: the tests themselves, a million objects, are needed until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run all combinations of parameters, not a choice")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("full" if config.getoption("--full") else "few")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> None:
    """Load the plugin of Schemathesis, which takes seconds to import, only for the files that need it."""
    plugins = parent.config.pluginmanager
    if file_path.name == "test_schemathesis.py" and plugins.is_blocked("schemathesis"):
        plugins.unblock("schemathesis")
        plugins.register(import_module("schemathesis.pytest.plugin"), "schemathesis")


BROWSER_FILES = pytest.StashKey[set[Path]]()
STRENGTHS = {"each_value": 1, "pairwise": 2}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose among combinations, and put files that use a browser first."""
    if not config.getoption("--full"):
        left_out = _left_out(items)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    in_browser = {item.path for item in items if "browser" in getattr(item, "fixturenames", ())}
    config.stash[BROWSER_FILES] = in_browser
    items.sort(key=lambda item: item.path not in in_browser)


def _left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the items marked `full`, and those that `each_value` and `pairwise` make superfluous."""
    groups = defaultdict[tuple[str, int], list[pytest.Function]](list)
    left_out = {item for item in items if item.get_closest_marker("full")}
    for item in items:
        strength = next((STRENGTHS[mark.name] for mark in item.iter_markers() if mark.name in STRENGTHS), 0)
        if strength and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            groups[item.nodeid.partition("[")[0], strength].append(item)
    for (_, strength), group in groups.items():
        # pytest numbers whole combinations in `callspec.indices`, unless the values are those of fixtures.
        rows = [{name: id(value) for name, value in item.callspec.params.items()} for item in group]
        chosen = choose_rows(rows, strength=strength)
        left_out |= set(group) - {group[position] for position in chosen}
    return left_out


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether a test that goes through combinations by itself is to go through all of them."""
    return bool(request.config.getoption("--full"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skipped test as failed, so that a missing part of the machine is noticed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but no test may be: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return chromium.find()


class BrowserProcess:
    """One Chromium for as long as tests use it one after the other.

    Playwright's blocking interface keeps an event loop running in this thread, beside which no async test can
    start one: the browser ends before the first test of a file that does not use it.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None

    def start(self, executable: str) -> Browser:
        if self._browser is None:
            playwright = self._running.enter_context(sync_playwright())
            self._browser = playwright.chromium.launch(executable_path=executable, args=BROWSER_FLAGS)
            self._running.callback(self._browser.close)
        return self._browser

    def end(self) -> None:
        self._browser = None
        self._running.close()


BROWSER_PROCESS = BrowserProcess()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.path not in item.config.stash[BROWSER_FILES]:
        BROWSER_PROCESS.end()


def pytest_sessionfinish() -> None:
    BROWSER_PROCESS.end()


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A headless Chromium; a file whose tests use it has no async tests."""
    instance = BROWSER_PROCESS.start(chromium_path)
    yield instance
    for context in instance.contexts:
        context.close()
