"""The generated parts of the docs are up to date."""

from pathlib import Path

import pytest

from scripts.draw_docs import DRAWINGS, generate_page, list_generated_pages
from scripts.drawing import part_names, replace_parts, table
from tests.docs.markdown import relative_name


@pytest.mark.parametrize("page", list_generated_pages(), ids=relative_name)
def test_a_drawn_page_is_what_the_code_says_now(page: Path):
    assert page.read_text("utf-8") == generate_page(page), "run `python -m scripts.draw_docs`"


def test_every_drawing_has_its_place():
    placed = [name for page in list_generated_pages() for name in part_names(page.read_text("utf-8"))]
    assert sorted(placed) == sorted(DRAWINGS)


def test_what_people_wrote_is_left_alone():
    page = "Before.\n<!-- drawn: limits -->\nold\n<!-- /drawn -->\nAfter.\n"
    assert replace_parts(page, {"limits": "new"}) == (
        "Before.\n<!-- drawn: limits -->\n\nnew\n\n<!-- /drawn -->\nAfter.\n"
    )


def test_a_bar_in_a_cell_does_not_end_it():
    assert table(("a",), [("x|y\nz",)]) == "| a |\n| --- |\n| x\\|y z |"
