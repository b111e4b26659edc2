"""What a person sees in a terminal while a command waits: one live line, a QR code, and tidy ends."""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import segno

from placet.agent import FollowedCase, Notice
from placet.cli.progress_line import ProgressLine, describe_activity, describe_time_left, fit_width
from placet.cli.qr_code import QUIET, draw_qr_lines, measure_qr_code
from placet.protocol.poll import Progress
from tests.cli.asking import Desk
from tests.cli.pseudo_terminal import terminal
from tests.cli.strange_service import Reply, StrangeService, strange_service
from tests.waiting import eventually

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
CASE = FollowedCase(
    case_id="case-1",
    type="input",
    prompt="?",
    message="?",
    review_url="https://a.example/r",
    poll_url="https://a.example/p",
    service_url="https://a.example",
    expires_at=NOW + timedelta(hours=2, seconds=5),
    created_at=NOW,
    spec_version="0.9",
)


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


def list_live_lines(seen: str) -> list[str]:
    """Every state of the live line but one that is still being drawn."""
    return [line for line in re.findall(r"\r\x1b\[K([^\r\n]*)(?=[\r\n])", seen) if line]


@pytest.mark.parametrize("columns", [80, 40])
def test_the_live_line_counts_down_in_place_and_leaves_no_trace(
    desk: Desk, service: StrangeService, columns: int
) -> None:
    service.asks(expires_at=(datetime.now(UTC) + timedelta(minutes=10)).isoformat())
    service.answer_polls_with(status="in_progress", progress={"current_step": 2, "total_steps": 3})
    with terminal(desk, columns, "request", "POST", f"{service.url}/act", "--interval", "0.2") as shown:
        eventually(lambda: len({line for line in list_live_lines(shown.seen) if "nswer" in line}) >= 2)
        assert all(len(line) < columns for line in list_live_lines(shown.seen))
        assert all(re.search(r"\d:\d\d left", line) for line in list_live_lines(shown.seen))
        assert any("Ctrl-C leaves it open" in line for line in list_live_lines(shown.seen)) == (columns == 80)
        service.answer_polls_with(status="completed", result={"action": "confirm", "data": {}})
        assert shown.end() == 0
        shown.wait_for('"status": "completed"')
        assert re.search(r"\r\x1b\[KConfirmed, ", shown.seen)


def test_the_link_stands_whole_in_its_line_however_narrow_the_terminal(
    desk: Desk, service: StrangeService
) -> None:
    link = f"{service.url}/review/{'x' * 60}"
    service.asks(review_url=link)
    service.answer_polls_with(status="pending")
    with terminal(desk, 40, "request", "POST", f"{service.url}/act") as shown:
        shown.wait_for(f"  {link}\r\n")


@pytest.mark.parametrize("name", ["options", "options_preview"])
def test_options_of_a_selection_are_listed_in_the_terminal_and_cannot_control_it(
    desk: Desk, service: StrangeService, name: str
) -> None:
    options = [{"id": "a", "title": "Loft"}, {"id": "b", "title": "Ha\x1b[31mll\nChoice 3: fake"}]
    service.asks(type="selection", context={name: options})
    service.answer_polls_with(status="pending")
    with terminal(desk, 80, "request", "POST", f"{service.url}/act", "--via", "terminal") as shown:
        shown.wait_for("Waiting for a person")
        assert "  Choice 1: Loft\r\n" in shown.seen
        assert "  Choice 2: Ha" in shown.seen
        assert "\n  Choice 3" not in shown.seen
        assert "\x1b[31m" not in shown.seen


def test_a_terminal_that_cannot_draw_over_a_line_gets_plain_ones(desk: Desk, service: StrangeService) -> None:
    service.asks()
    service.answer_polls_with(status="opened")
    with terminal(desk, 80, "request", "POST", f"{service.url}/act", TERM="dumb") as shown:
        shown.wait_for("A person has opened it (")
        assert "\x1b" not in shown.seen


def test_ctrl_c_clears_the_live_line_and_prints_how_to_resume(desk: Desk, service: StrangeService) -> None:
    service.asks()
    service.answer_polls_with(status="pending")
    with terminal(desk, 80, "request", "POST", f"{service.url}/act") as shown:
        shown.wait_for("Waiting for a person")
        shown.process.send_signal(2)
        assert shown.end() == 130
        shown.wait_for(
            "\r\x1b[KThe case is still open. Resume waiting with:\r\n  placet pending resume case-1\r\n"
        )


@pytest.mark.parametrize("columns", [80, 24])
def test_a_qr_code_is_drawn_where_it_fits(desk: Desk, service: StrangeService, columns: int) -> None:
    service.asks()
    service.answer_polls_with(status="pending")
    with terminal(desk, columns, "request", "POST", f"{service.url}/act", "--via", "qr") as shown:
        eventually(lambda: re.search(r"\d left", shown.seen))
        draw_qr_code = re.findall(r"\x1b\[30;107m([█▀▄ ]+)\x1b\[0m", shown.seen)
        if columns == 80:
            assert {len(line) for line in draw_qr_code} == {measure_qr_code(f"{service.url}/review/1")}
            assert "Only this computer can open this link" in shown.seen
        else:
            assert draw_qr_code == []
            assert "The QR code needs" in shown.seen


def test_a_qr_code_beside_typed_answers_is_not_torn_by_a_narrow_window(
    desk: Desk, service: StrangeService
) -> None:
    service.asks()
    service.answer_polls_with(status="pending")
    vias = ("--via", "terminal", "--via", "qr")
    with terminal(desk, 24, "request", "POST", f"{service.url}/act", *vias) as shown:
        shown.wait_for("The QR code needs")
        assert "█" not in shown.seen


@pytest.mark.parametrize("status", [200, 202, 404])
def test_control_characters_in_a_response_are_escaped(
    desk: Desk, service: StrangeService, status: int
) -> None:
    service.replies["/plain"] = Reply(status=status, body="ünd \x1b]0;mine\x07\x9b2J\r\nnext".encode())
    with terminal(desk, 80, "request", "GET", f"{service.url}/plain") as shown:
        shown.wait_for("ünd ⟦U+001B⟧]0;mine⟦U+0007⟧⟦U+009B⟧2J\r\nnext\r\n")
        shown.end()
        assert "\x1b" not in shown.seen


def test_mcp_command_started_in_a_terminal_prints_a_hint(desk: Desk) -> None:
    with terminal(desk, 80, "mcp") as shown:
        shown.wait_for("This is an MCP server for the assistant that starts it. Ctrl-C stops it.")


@pytest.mark.parametrize("plain", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_demo_prints_no_styles_when_they_are_disabled(desk: Desk, plain: dict[str, str]) -> None:
    with terminal(desk, 80, "demo", "--port", "0", **plain) as shown:
        shown.wait_for("Ctrl+C stops")
        assert "\x1b" not in shown.seen


# The words and the drawing


def test_qr_code_has_a_light_border() -> None:
    link = "https://placet.example/review/review_1?token=abc"
    pairs = {"█": (1, 1), "▀": (1, 0), "▄": (0, 1), " ": (0, 0)}
    rows: list[list[int]] = []
    for line in draw_qr_lines(link, coloured=True):
        blocks = line.removeprefix("\x1b[30;107m").removesuffix("\x1b[0m")
        rows += [[pairs[block][0] for block in blocks], [pairs[block][1] for block in blocks]]
    expected = [
        [int(module > 0) for module in row] for row in segno.make(link, error="l").matrix_iter(border=QUIET)
    ]
    assert rows[: len(expected)] == expected
    assert sum(map(sum, rows[len(expected) :])) == 0


def test_without_colours_light_is_drawn_for_dark_terminals() -> None:
    swapped = str.maketrans("█▀▄ ", " ▄▀█")
    coloured = [
        re.sub(r"\x1b\[[0-9;]*m", "", line) for line in draw_qr_lines("https://a.example", coloured=True)
    ]
    assert draw_qr_lines("https://a.example", coloured=False) == [
        line.translate(swapped) for line in coloured
    ]


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (timedelta(days=2, hours=5, minutes=1), "2 d 5 h left"),
        (timedelta(hours=23, minutes=4, seconds=9), "23:04:09 left"),
        (timedelta(minutes=4, seconds=9), "4:09 left"),
        (timedelta(seconds=0), "0:00 left"),
        (timedelta(seconds=-2), "the time is over"),
        (timedelta(days=3000), ""),
    ],
)
def test_the_countdown_in_words(left: timedelta, words: str) -> None:
    assert describe_time_left(left) == words


def test_progress_is_shown() -> None:
    progress = Progress(current_step=2, total_steps=3, completed_fields=0, total_fields=9)
    notice = Notice(name="in_progress", case=CASE, progress=progress)
    assert describe_activity(notice) == (
        "A person is answering, step 2 of 3, 0 of 9 fields",
        "Being answered, step 2 of 3",
        "Being answered",
    )
    assert describe_activity(Notice(name="in_progress", case=CASE))[0] == "A person is answering"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (60, "Somebody answers · 1:00 left · Ctrl-C"),
        (30, "Somebody answers · 1:00 left"),
        (25, "Answered · 1:00 left"),
        (12, "1:00 left"),
        (5, "1:00…"),
    ],
)
def test_live_line_drops_the_least_important_part_first(width: int, line: str) -> None:
    assert fit_width(("Somebody answers", "Answered"), ("1:00 left", "Ctrl-C"), width) == line


def test_connection_trouble_is_reported_once() -> None:
    now, out = [NOW], io.StringIO()
    line = ProgressLine(out, live=False, clock=lambda: now[0])
    line.show(Notice(name="requested", case=CASE))
    for _ in range(3):
        line.show(Notice(name="trouble", case=CASE, text="The service answered HTTP 503."))
    line.show(Notice(name="opened", case=CASE))
    assert out.getvalue() == (
        "Waiting for a person to open it (2:00:05 left).\n"
        "The service answered HTTP 503 (2:00:05 left).\n"
        "A person has opened it (2:00:05 left).\n"
    )
