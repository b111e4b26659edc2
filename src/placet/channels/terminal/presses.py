"""What was typed, read as presses: one line is one number, and a number stands for one answer for ever."""

from collections.abc import Sequence

from placet.channels.terminal.render import Numbered
from placet.ports.channel import Press, Presser

PLATFORM = "x-terminal"
VIA = "x-terminal_prompt"
MAX_LINE = 256
"""A line that chooses a number is shorter; the rest of a longer one is dropped."""


def whole_lines(typed: bytes) -> tuple[list[str], bytes]:
    """The lines that are whole, and the beginning of the next one."""
    *lines, rest = typed.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return [line[:MAX_LINE].decode("utf-8", "replace").strip() for line in lines], rest[:MAX_LINE]


def chosen(line: str, answers: Sequence[Numbered]) -> Numbered | None:
    """The answer whose number was typed, and nothing else with it."""
    if not (line.isascii() and line.isdigit()):
        return None
    return next((answer for answer in answers if str(answer.number) == line.lstrip("0")), None)


def press_of(answer: Numbered, *, press_id: str, user: str) -> Press:
    """The press of an answer by whoever this terminal belongs to."""
    return Press(
        id=press_id,
        reference=answer.button.reference,
        presser=Presser(platform=PLATFORM, user_id=user, name=user),
        via=VIA,
    )
