"""Runs the program of a framework's guide against a live server."""

import runpy
from pathlib import Path

import pytest

from examples.stage import run_placet_server

SNIPPETS = Path(__file__).parents[4] / "docs" / "snippets" / "frameworks"


def run_snippet(name: str, folder: Path) -> None:
    """Run the program in the folder; its assertions say whether it did what its page says."""
    with run_placet_server() as (url, key), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACET_SERVER", url)
        patch.setenv("PLACET_KEY", key)
        patch.chdir(folder)
        runpy.run_path(str(SNIPPETS / name), run_name="snippet")
