"""Tables in the terminal: aligned, wrapped when narrow, and without control characters."""

import re

import pytest

from placet.cli.output import print_json, print_table
from placet.cli.text_tables import format_aligned, format_stacked
from placet.text.width import display_width
from tests.cli.asking import Desk
from tests.cli.process import placet
from tests.cli.pseudo_terminal import terminal

HEADER = ("id", "from", "message")
ROWS = [["0123456789-0123456789-0123456789", "app", "Shall we go on with it now? " + "x" * 30]]


def test_columns_are_aligned_by_what_they_take_on_the_screen() -> None:
    assert format_aligned(("name", "state"), [["日本語", "open"], ["e\u0301te", "done"]]) == [
        "NAME    STATE",
        "日本語  open",
        "e\u0301te     done",
    ]


def test_a_row_that_does_not_fit_stands_in_a_block_of_its_own() -> None:
    assert format_stacked(HEADER, ROWS * 2, 40)[:6] == [
        "ID       0123456789-0123456789-0123456789",
        "FROM     app",
        "MESSAGE  Shall we go on with it now?",
        "         " + "x" * 30,
        "",
        "ID       0123456789-0123456789-0123456789",
    ]


@pytest.mark.parametrize("text", ["x" * 200, "日" * 200])
def test_foreign_text_never_starts_in_the_label_column(text: str) -> None:
    block = format_stacked(HEADER, [["1", "app", text]], 30)
    assert all(display_width(line) <= 30 for line in block)
    assert [line[:9] for line in block[3:]] == [" " * 9] * (len(block) - 3)


def test_a_list_that_is_wider_than_the_terminal_is_stacked_there_and_aligned_elsewhere(desk: Desk) -> None:
    case_id = desk.start("ask", "approval", "Send it?", "--max-wait", "0").end(13)["case_id"]
    with terminal(desk, 80, "pending", "list") as shown:
        assert shown.end() == 0
        shown.wait_for("PROMPT    Send it?")
        lines = shown.seen.replace("\r\n", "\n").splitlines()
    assert lines[0] == f"CASE      {case_id}"
    assert max(map(len, lines)) <= 80
    with terminal(desk, 200, "pending", "list") as shown:
        assert shown.end() == 0
        shown.wait_for("Send it?")
    assert re.match(r"CASE +TYPE +UNTIL +NOTIFIED +PROMPT\r\n", shown.seen)
    piped = placet(desk.folder, "pending", "list", env=desk.env).stdout
    assert piped == shown.seen.replace("\r\n", "\n")


def test_cells_and_json_contain_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [["a\x1b[2Jb\nc\u202e"]], empty="")
    assert capsys.readouterr().out == "NAME\na⟦U+001B⟧[2Jb c⟦U+202E⟧\n"
    print_json({"name": "a\x1b\x9b\u202e"})
    assert capsys.readouterr().out == '{\n  "name": "a\\u001b\\u009b\\u202e"\n}\n'
