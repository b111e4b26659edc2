"""Draws the life of a case into its page of the docs, from the machine's own table."""

import re
from pathlib import Path

from placet.cases.commands import COMMANDS, Command
from placet.cases.machine import TRANSITIONS, Refuse, Stay, TransitionRule
from placet.protocol.poll import Status

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "state-machine.md"

_BLOCK = re.compile(r"(?P<begin><!-- drawn: (?P<name>\w+) -->\n).*?(?P<end><!-- end -->\n)", re.DOTALL)


def draw_diagram() -> str:
    """The moves from one status to another, as a Mermaid diagram."""
    moves: dict[tuple[Status, Status], list[str]] = {}
    for (status, command), rule in TRANSITIONS.items():
        if isinstance(rule, Status) and rule is not status:
            moves.setdefault((status, rule), []).append(command.__name__)
    arrows = [f"    {start} --> {end}: {', '.join(names)}" for (start, end), names in moves.items()]
    ends = [f"    {status} --> [*]" for status in Status if status.terminal]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> pending", *arrows, *ends, "```", ""])


def draw_grid() -> str:
    """Every command in every status, as a table."""
    head = ["Command", *(f"`{status}`" for status in Status)]
    rows = [[f"**{command.__name__}**", *_outcomes(command)] for command in COMMANDS]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def list_meanings() -> str:
    """What each command says, in its own words."""
    return "".join(f"- **{command.__name__}**: {_first_line(command)}\n" for command in COMMANDS)


def draw_page(page: str) -> str:
    """The page with its drawn blocks as the table has them now."""
    drawn = {"diagram": draw_diagram, "grid": draw_grid, "meanings": list_meanings}
    return _BLOCK.sub(lambda block: block["begin"] + drawn[block["name"]]() + block["end"], page)


def _outcomes(command: type[Command]) -> list[str]:
    return [_outcome(status, TRANSITIONS[status, command]) for status in Status]


def _outcome(status: Status, rule: TransitionRule) -> str:
    if isinstance(rule, Stay):
        return "–"
    if isinstance(rule, Refuse):
        return f"{rule.error.status}"
    return "recorded" if rule is status else f"→ `{rule}`"


def _first_line(command: type[Command]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]


if __name__ == "__main__":
    PAGE.write_text(draw_page(PAGE.read_text()))
