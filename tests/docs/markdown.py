"""Code blocks, headings and links of the pages of the documentation."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def relative_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of one language, in order."""
    found = _BLOCK.finditer(page.read_text("utf-8"))
    return [block["text"] for block in found if block["language"] == language]


def links(page: Path) -> list[str]:
    """Return the targets of a page's links within the project."""
    targets = [found["target"] for found in _LINK.finditer(_CODE.sub("", page.read_text("utf-8")))]
    return [target for target in targets if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Return what a link may name after `#`: the headings, as GitHub writes them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {_anchor(found["title"]) for found in _HEADING.finditer(prose)}


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
