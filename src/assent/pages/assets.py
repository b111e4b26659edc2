"""The few files that pages link to: one stylesheet, put together from its parts, and small script modules."""

from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
STYLESHEET = "assent.css"


@cache
def assets() -> dict[str, bytes]:
    """Every file by its name; the parts of the stylesheet stand in the order of theirs."""
    styles = b"\n".join(part.read_bytes() for part in sorted((_STATIC / "css").glob("*.css")))
    scripts = {part.name: part.read_bytes() for part in (_STATIC / "js").glob("*.js")}
    return {STYLESHEET: styles, **scripts}
