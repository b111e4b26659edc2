"""Finds the Chromium that the tests drive, or installs one; nothing here opens a page."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from scripts import packages

COMMANDS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
APPLICATIONS = (
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)


class BrowserMissing(Exception):
    """No Chromium or Chrome was found; set CHROMIUM to an executable, or run `make test` to install one."""


def find() -> str:
    """Return the path of a browser that starts, or raise BrowserMissing."""
    for candidate in _candidates():
        if _starts(candidate):
            return candidate
    raise BrowserMissing(BrowserMissing.__doc__)


def _candidates() -> Iterator[str]:
    if chosen := os.environ.get("CHROMIUM"):
        yield chosen
        return
    yield from filter(None, map(shutil.which, COMMANDS))
    yield from map(str, filter(Path.exists, APPLICATIONS))
    with sync_playwright() as playwright:
        bundled = playwright.chromium.executable_path
    if Path(bundled).exists():
        yield bundled


def _starts(executable: str) -> bool:
    # A distribution may put a stub in place of the browser: only one that names its version counts.
    try:
        outcome = subprocess.run([executable, "--version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return outcome.returncode == 0


def install() -> None:
    """Try the system's packages, then Playwright's own build, until a browser is found."""
    if "CHROMIUM" in os.environ:
        return
    for attempt in (_install_from_system, _install_from_playwright):
        attempt()
        try:
            find()
        except BrowserMissing:
            continue
        return


def _install_from_system() -> None:
    packages.install("chromium")


def _install_from_playwright() -> None:
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)


def main() -> None:
    """Make sure a browser is there, or leave with a message that says what to do."""
    try:
        find()
    except BrowserMissing:
        install()
    try:
        find()
    except BrowserMissing as missing:
        sys.exit(f"browser: {missing}")


if __name__ == "__main__":
    main()
