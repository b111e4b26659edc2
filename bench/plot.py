"""A report as a small drawing: one bar for each ratio, with its bound as a line across."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from bench.figures import Figure, Report
from bench.rows import ROWS

WIDTH, LABEL, BAR, GAP = 720, 250, 14, 10
SCALE = WIDTH - LABEL - 60
FULL = 0.8  # the ratio that fills the width
SHADES = ("#2f6f8f", "#8fb8c9")


def draw_svg(report: Report) -> str:
    """The drawing as an SVG document."""
    rows = [name for name in ROWS if any(one.row == name and one.comparison for one in report.figures)]
    sizes = sorted({one.stored for one in report.figures})
    group = len(sizes) * BAR + GAP
    height = 50 + len(rows) * group + 20
    parts = [_heading(sizes)]
    for number, name in enumerate(rows):
        parts.extend(_group(report, name, sizes, top=50 + number * group))
    style = "text{font:12px sans-serif;fill:#222}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}"><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _heading(sizes: list[int]) -> str:
    keys = "".join(
        f'<rect x="{LABEL + 150 * place}" y="26" width="12" height="12" fill="{SHADES[place % 2]}"/>'
        f'<text x="{LABEL + 16 + 150 * place}" y="36">{size:,} stored</text>'
        for place, size in enumerate(sizes)
    )
    return f'<text x="8" y="18">Throughput against a bare ASGI app on the same server</text>{keys}'


def _group(report: Report, name: str, sizes: list[int], *, top: int) -> Iterator[str]:
    row = ROWS[name]
    yield f'<text x="8" y="{top + BAR * len(sizes) / 2 + 4:.0f}">{escape(row.title)}</text>'
    for place, size in enumerate(sizes):
        found = [one for one in report.figures if one.row == name and one.stored == size]
        if found:
            yield _bar(found[0], top + place * BAR, SHADES[place % 2])
    if row.at_least is not None:
        x = LABEL + SCALE * row.at_least / FULL
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 3}" y2="{top + BAR * len(sizes) + 3}" '
            'stroke="#b3261e" stroke-width="2"/>'
        )


def _bar(figure: Figure, y: int, shade: str) -> str:
    width = SCALE * min(figure.value, FULL) / FULL
    return (
        f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{shade}"/>'
        f'<text x="{LABEL + width + 6:.1f}" y="{y + 10}">{figure.value:.2f}</text>'
    )
