"""No link of the docs leads nowhere, and every page can be reached from the index."""

from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT, anchors, links, relative_name

INDEX = ROOT / "docs" / "index.md"


def target_of(page: Path, link: str) -> Path:
    path = link.partition("#")[0]
    return (page.parent / path).resolve() if path else page


@pytest.mark.parametrize("page", PAGES, ids=relative_name)
def test_every_link_leads_to_a_page_and_a_heading(page: Path):
    lost = []
    for link in links(page):
        target, anchor = target_of(page, link), link.partition("#")[2]
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_page_can_be_reached_from_the_index():
    reached, waiting = {INDEX}, [INDEX]
    while waiting:
        page = waiting.pop()
        for link in links(page):
            target = target_of(page, link)
            if target.suffix == ".md" and target not in reached and target.is_file():
                reached.add(target)
                waiting.append(target)
    assert [
        relative_name(page) for page in PAGES if page not in reached and ROOT / "docs" in page.parents
    ] == []
