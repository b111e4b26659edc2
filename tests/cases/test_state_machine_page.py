"""The page about the machine shows the machine that runs."""

from placet.cases.machine import TRANSITIONS
from placet.protocol.poll import Status
from scripts.draw_machine import PAGE, draw_diagram, draw_page


def test_the_page_is_drawn_from_the_table_as_it_is_now() -> None:
    assert PAGE.read_text() == draw_page(PAGE.read_text()), "run python -m scripts.draw_machine"


def test_the_diagram_shows_every_move_and_no_other() -> None:
    moves = {
        f"{status} --> {rule}"
        for (status, _), rule in TRANSITIONS.items()
        if isinstance(rule, Status) and rule is not status
    }
    drawn = {line.strip().partition(":")[0] for line in draw_diagram().splitlines() if "-->" in line}
    assert {line for line in drawn if "[*]" not in line} == moves


def test_an_old_drawing_would_be_noticed() -> None:
    page = PAGE.read_text()
    assert draw_page(page.replace("→ `completed`", "→ `cancelled`", 1)) == page
