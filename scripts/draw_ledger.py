"""Draws docs/reference/spec-coverage.md from the ledger in tests/spec: python -m scripts.draw_ledger."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.spec.ledger import LEDGER, TITLES
from tests.spec.requirement import Requirement

PAGE = "docs/reference/spec-coverage.md"
ROOT = Path(__file__).parent.parent
INTRODUCTION = """\
# What the specification asks, and what shows that we keep it

Placet speaks the HITL Protocol, versions 0.5 to 0.9. Listed here is what the protocol asks in its sections
6 to 13 and in what later versions added, in our own words. Each line names the tests that show it, says whose
duty it is if not ours, or says what we do instead. *Stated* marks what the protocol says as a fact, without
a keyword. Drawn from `tests/spec` by `python -m scripts.draw_ledger`; do not edit it here.
"""


def draw() -> str:
    """The page."""
    parts = [INTRODUCTION, _summary()]
    for section, title in TITLES.items():
        rows = [one for one in LEDGER if one.section == section]
        parts.append(f"## {section} {title}\n\n{_table(rows)}")
    return "\n".join(parts)


def describe_coverage(requirement: Requirement) -> str:
    """How a requirement is accounted for."""
    if requirement.not_ours:
        return "not ours"
    return "kept differently" if requirement.divergence else "shown"


def _summary() -> str:
    lines = ["| Section | Shown by tests | Kept differently | Not ours | All |", "|---|---:|---:|---:|---:|"]
    for section, title in TITLES.items():
        lines.append(_counts(f"{section} {title}", [one for one in LEDGER if one.section == section]))
    lines.append(_counts("**All**", LEDGER))
    return "\n".join(lines) + "\n"


def _counts(name: str, rows: Iterable[Requirement]) -> str:
    count = Counter(describe_coverage(one) for one in rows)
    cells = [count["shown"], count["kept differently"], count["not ours"], count.total()]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def _table(rows: Iterable[Requirement]) -> str:
    lines = ["| Id | Level | What is asked | What shows it |", "|---|---|---|---|"]
    for one in rows:
        level = one.level.capitalize() if one.level == "STATED" else one.level
        lines.append(f"| `{one.id}` | {level} | {one.text} | {_evidence(one)} |")
    return "\n".join(lines) + "\n"


def _evidence(requirement: Requirement) -> str:
    said = [f"Not ours: {requirement.not_ours}"] if requirement.not_ours else []
    if requirement.divergence:
        said.append(f"Instead: {requirement.divergence}")
    said += [_link(test) for test in requirement.tests]
    return "<br>".join(said)


def _link(node_id: str) -> str:
    path, _, name = node_id.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../../{path})"


if __name__ == "__main__":
    (ROOT / PAGE).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / PAGE).write_text(draw())
    print(f"wrote {PAGE}")
