"""Parse typed lines: a line with the number of a button is a press of that button."""

from collections.abc import Sequence

from placet.channels.terminal.render import NumberedButton
from placet.ports.channel import Interaction, InteractionUser

PLATFORM = "x-terminal"
VIA = "x-terminal_prompt"
MAX_LINE_LENGTH = 256
"""A line that chooses a number is shorter; the rest of a longer one is dropped."""


def split_lines(typed: bytes) -> tuple[list[str], bytes]:
    """Return the complete lines, and the rest without a line break."""
    *lines, rest = typed.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return [line[:MAX_LINE_LENGTH].decode("utf-8", "replace").strip() for line in lines], rest[
        :MAX_LINE_LENGTH
    ]


def find_button(line: str, answers: Sequence[NumberedButton]) -> NumberedButton | None:
    """Return the button whose number is the whole line, or None."""
    if not (line.isascii() and line.isdigit()):
        return None
    return next((answer for answer in answers if str(answer.number) == line.lstrip("0")), None)


def interaction_from_button(answer: NumberedButton, *, press_id: str, user: str) -> Interaction:
    """Return the press of a button by the user of this terminal."""
    return Interaction(
        id=press_id,
        reference=answer.button.reference,
        user=InteractionUser(platform=PLATFORM, user_id=user, name=user),
        via=VIA,
    )
