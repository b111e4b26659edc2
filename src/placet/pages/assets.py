"""The few files that pages link to: one stylesheet, put together from its parts, and small script modules.

What only few pages need of style is a sheet beside it, so that all others stay light.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
STYLESHEET = "placet.css"
ENTRY = "placet.js"
_MODULE = re.compile(r'^\s*"([^"]*)": "\./([\w-]+\.js)",$', re.MULTILINE)
_HOOK = re.compile(r"[\[.#]([\w-]+)")
_UNREAD = re.compile(
    rb"/\*.*?\*/\n*|(?<=\n)\n+", re.DOTALL
)  # comments and empty lines: no browser needs them
_UNREAD_BY_SCRIPTS = re.compile(rb"^[ ]*//.*\n|^\n", re.MULTILINE)
_IMPORT = re.compile(r'^import [^;]*"\./([\w-]+\.js)";', re.MULTILINE)


@cache
def assets() -> dict[str, bytes]:
    """Every file by its name; the parts of the stylesheet stand in the order of theirs."""
    styles = b"\n".join(_style(part) for part in sorted((_STATIC / "css").glob("*.css")))
    beside = {part.name: _style(part) for part in sorted((_STATIC / "beside").glob("*.css"))}
    scripts = {part.name: _script(part) for part in sorted((_STATIC / "js").glob("*.js"))}
    return {STYLESHEET: styles, **beside, **scripts}


def _style(part: Path) -> bytes:
    return _UNREAD.sub(b"", part.read_bytes())


def _script(part: Path) -> bytes:
    return _UNREAD_BY_SCRIPTS.sub(b"", part.read_bytes())


def fingerprint(files: Mapping[str, bytes]) -> str:
    """A name for exactly these files: it stands in their addresses, so that they can be kept for ever."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(b"%s\0%d\0" % (name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()[:12]


class WantedScripts:
    """The modules that the entry will ask for on a page, so that the browser need not wait to learn it."""

    def __init__(self) -> None:
        self._has_entry = False
        self._found: set[str] = set()

    def read(self, html: str) -> None:
        """Look through another part of the page."""
        self._has_entry = self._has_entry or f"/{ENTRY}" in html
        self._found.update(
            module
            for hooks, module in _modules()
            if module not in self._found and any(hook in html for hook in hooks)
        )

    @property
    def names(self) -> list[str]:
        """In the order in which the entry names them, and what they import."""
        if not self._has_entry:
            return []
        found = [module for _, module in _modules() if module in self._found]
        wanted = dict.fromkeys([*found, *(more for one in found for more in _imports(one))])
        return [name for name in wanted if name != ENTRY]


@cache
def _modules() -> tuple[tuple[tuple[str, ...], str], ...]:
    """What in a page each module is there for: the first name in each of its selectors."""
    table = _MODULE.findall(assets()[ENTRY].decode())
    return tuple((tuple(_hooks(selectors)), module) for selectors, module in table)


def _hooks(selectors: str) -> list[str]:
    named = [_HOOK.search(selector) for selector in selectors.split(",")]
    return [found[1] for found in named if found]


@cache
def _imports(module: str) -> tuple[str, ...]:
    return tuple(_IMPORT.findall(assets().get(module, b"").decode()))
