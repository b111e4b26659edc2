"""What was typed, read as presses: one line is one number, and a number stands for one answer for ever."""

from collections.abc import Sequence

from placet.channels.terminal.render import NumberedButton
from placet.ports.channel import Interaction, InteractionUser

PLATFORM = "x-terminal"
VIA = "x-terminal_prompt"
MAX_LINE = 256
"""A line that chooses a number is shorter; the rest of a longer one is dropped."""


def split_lines(typed: bytes) -> tuple[list[str], bytes]:
    """The lines that are whole, and the beginning of the next one."""
    *lines, rest = typed.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return [line[:MAX_LINE].decode("utf-8", "replace").strip() for line in lines], rest[:MAX_LINE]


def find_button(line: str, answers: Sequence[NumberedButton]) -> NumberedButton | None:
    """The answer whose number was typed, and nothing else with it."""
    if not (line.isascii() and line.isdigit()):
        return None
    return next((answer for answer in answers if str(answer.number) == line.lstrip("0")), None)


def interaction_from_button(answer: NumberedButton, *, press_id: str, user: str) -> Interaction:
    """The press of an answer by whoever this terminal belongs to."""
    return Interaction(
        id=press_id,
        reference=answer.button.reference,
        user=InteractionUser(platform=PLATFORM, user_id=user, name=user),
        via=VIA,
    )
