"""A link as a QR code in the terminal: two rows of it in each line of half blocks."""

QUIET = 2  # modules of light around it; scanners of phones need no more
_DARK_ON_LIGHT, _PLAIN = "\x1b[30;107m", "\x1b[0m"
# (upper row dark, lower row dark) -> a character in the colour of what is drawn.
_DARK_DRAWN = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
_LIGHT_DRAWN = {(not upper, not lower): block for (upper, lower), block in _DARK_DRAWN.items()}


def qr_lines(link: str, *, coloured: bool) -> list[str]:
    """The lines to print; without colours it is drawn for light letters on a dark ground."""
    rows = _rows(link)
    blocks = _DARK_DRAWN if coloured else _LIGHT_DRAWN
    lines = []
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        line = "".join(blocks[pair] for pair in zip(upper, lower, strict=True))
        lines.append(f"{_DARK_ON_LIGHT}{line}{_PLAIN}" if coloured else line)
    return lines


def qr_width(link: str) -> int:
    """How many columns it takes."""
    return len(_rows(link)[0])


def _rows(link: str) -> list[list[bool]]:
    """Dark or light, the quiet zone included; an even number of rows."""
    import segno

    matrix = segno.make(link, error="l", micro=False).matrix_iter(border=QUIET)
    rows = [[bool(module) for module in row] for row in matrix]
    return rows if len(rows) % 2 == 0 else [*rows, [False] * len(rows[0])]
