"""What every test may ask for: one event loop backend, and a real browser."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

from scripts import browser as chromium

# The same examples on every run; `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("repeat", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("repeat")

# A shell ignores Ctrl-C for what it starts in the background, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test calls anyone whom the world's authorities vouch for, and to read them all takes a client as long as
# twenty calls: clients here, and in the programs that tests start, trust by default one that nobody is.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("nobody.pem"))

# The address bar of every window loads pages of its own, which cost more than ours. A browser heeds only the
# last list of features, so those that Playwright turns off stand here too.
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
    f"--disable-features={','.join(UNUSED_FEATURES)}",
]


# Whole files go to one worker each: the long ones begin first, so that none of them is still running alone
# when everything else is done.
LONGEST_FIRST = (
    "tests/pages/test_pages_that_",
    "tests/pages/test_foreign_pages.py",
    "tests/pages/test_browser.py",
    "tests/browser/test_hostile_pages.py",
    "tests/browser/",
    "tests/hook/frameworks/",
    "tests/hook/savers/",
    "tests/mcp/",
    "tests/docs/",
    "tests/cli/",
)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: the tests themselves, a million objects, stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; the order inside a file stays."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    places = (place for place, start in enumerate(LONGEST_FIRST) if nodeid.startswith(start))
    return next(places, len(LONGEST_FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skipped test as failed: a part that is missing here would be missing unnoticed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and nothing may be: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return chromium.find()


# Per module, not per session: Playwright's sync face keeps a loop running in this thread for as long as it
# lives, and no async test could start its own beside it.
@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A headless Chromium; a file whose tests use it has no async tests."""
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium_path, args=BROWSER_FLAGS)
        yield instance
        instance.close()
