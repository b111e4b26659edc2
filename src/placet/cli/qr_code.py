"""Draws a link as a QR code in the terminal, with two rows of modules per line."""

QUIET = 2  # width of the light margin in modules; enough for phones
_DARK_ON_LIGHT, _PLAIN = "\x1b[30;107m", "\x1b[0m"
# (upper row is dark, lower row is dark) -> character.
_DARK_DRAWN = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
_LIGHT_DRAWN = {(not upper, not lower): block for (upper, lower), block in _DARK_DRAWN.items()}


def draw_qr_lines(link: str, *, coloured: bool) -> list[str]:
    """Return the lines to print. Without colours, it is drawn for light text on a dark background."""
    rows = _draw_rows(link)
    blocks = _DARK_DRAWN if coloured else _LIGHT_DRAWN
    lines = []
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        line = "".join(blocks[pair] for pair in zip(upper, lower, strict=True))
        lines.append(f"{_DARK_ON_LIGHT}{line}{_PLAIN}" if coloured else line)
    return lines


def measure_qr_code(link: str) -> int:
    """Return its width in columns."""
    return len(_draw_rows(link)[0])


def _draw_rows(link: str) -> list[list[bool]]:
    """Return the rows of modules with the margin: an even number of rows, True for dark."""
    import segno

    matrix = segno.make(link, error="l", micro=False).matrix_iter(border=QUIET)
    rows = [[bool(module) for module in row] for row in matrix]
    return rows if len(rows) % 2 == 0 else [*rows, [False] * len(rows[0])]
