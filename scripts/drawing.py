"""Pages that are generated in part: what stands between two marks is replaced, and nothing else."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent

_PART = re.compile(r"(<!-- drawn: (?P<name>[a-z-]+) -->\n).*?(<!-- /drawn -->)", re.DOTALL)


def replace_parts(text: str, parts: dict[str, str]) -> str:
    """Return the page with its generated parts replaced; raise KeyError for a part without a generator."""
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found['name']].strip()}\n\n{found[3]}", text)


def part_names(text: str) -> list[str]:
    """Return the names of the generated parts of a page."""
    return [found["name"] for found in _PART.finditer(text)]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; cells may contain Markdown, and a bar in them is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def code(text: object) -> str:
    """Return the text formatted as code."""
    return f"`{text}`"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
