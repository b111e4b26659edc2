"""Python in the docs is a piece of a program, and the program runs."""

import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT, blocks, relative_name

SNIPPETS = sorted((ROOT / "docs" / "snippets").glob("*.py"))
OWN_ENVIRONMENT = sorted((ROOT / "docs" / "snippets" / "frameworks").glob("*.py"))
"""Programs that the tests of their frameworks run, in `make compat`."""
PROGRAMS = [*SNIPPETS, *OWN_ENVIRONMENT, *sorted((ROOT / "examples").glob("*.py"))]
SHOWN = [(page, text) for page in PAGES for text in blocks(page, "python")]


@pytest.mark.parametrize(
    ("page", "text"), SHOWN, ids=[f"{relative_name(page)}-{number}" for number, (page, _) in enumerate(SHOWN)]
)
def test_python_on_a_page_is_part_of_a_program_that_is_run(page: Path, text: str):
    assert any(text in program.read_text("utf-8") for program in PROGRAMS)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=relative_name)
def test_a_snippet_does_what_its_page_says(snippet: Path, live_server, monkeypatch, tmp_path):
    url, key = live_server
    monkeypatch.setenv("PLACET_SERVER", url)
    monkeypatch.setenv("PLACET_KEY", key)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(snippet), run_name="snippet")


@pytest.mark.parametrize("snippet", [*SNIPPETS, *OWN_ENVIRONMENT], ids=relative_name)
def test_every_snippet_is_shown_somewhere(snippet: Path):
    program = snippet.read_text("utf-8")
    assert any(text in program for _, text in SHOWN)
