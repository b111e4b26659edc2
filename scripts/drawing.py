"""Pages that are partly drawn from the code: what stands between two marks is redrawn, and nothing else."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent

_PART = re.compile(r"(<!-- drawn: (?P<name>[a-z-]+) -->\n).*?(<!-- /drawn -->)", re.DOTALL)


def redrawn(text: str, parts: dict[str, str]) -> str:
    """The page with every drawn part anew; raises KeyError for a part that nobody draws."""
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found['name']].strip()}\n\n{found[3]}", text)


def part_names(text: str) -> list[str]:
    """The names of the parts that are drawn into a page."""
    return [found["name"] for found in _PART.finditer(text)]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; cells may hold Markdown, and a bar in them is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def code(text: object) -> str:
    """Text set as code."""
    return f"`{text}`"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
