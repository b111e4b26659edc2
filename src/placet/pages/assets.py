"""The static files that pages link to: one stylesheet, joined from its parts, and small script modules.

The styles and scripts of one review type are in its folder; its declaration names them.
Styles that few pages need are in separate stylesheets, so that other pages stay small.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from placet.reviews.registry import DECLARATIONS

_STATIC = Path(__file__).parent / "static"
STYLESHEET = "placet.css"
ENTRY = "placet.js"
FAVICON = "icon.svg"
_SCRIPTS_OF_TYPES = "  // Here the server adds the scripts of the review types.\n"
_MODULE = re.compile(r'^\s*"([^"]*)": "\./([\w-]+\.js)",$', re.MULTILINE)
_HOOK = re.compile(r"[\[.#]([\w-]+)")
_STYLE_COMMENTS = re.compile(rb"/\*.*?\*/\n*|(?<=\n)\n+", re.DOTALL)  # comments and empty lines
_STYLE_SPACES = re.compile(rb"\s*([{};,>])\s*|(?<=:) +")  # no string in our styles has these signs
_SCRIPT_COMMENTS = re.compile(rb"^[ ]*//.*\n|^\n", re.MULTILINE)
_IMPORT = re.compile(r'^import [^;]*"\./([\w-]+\.js)";', re.MULTILINE)


@cache
def read_assets() -> dict[str, bytes]:
    """Return every file by name; the parts of the stylesheet are joined in the order of their names."""
    types = DECLARATIONS.values()
    parts = [*(_STATIC / "css").glob("*.css"), *(one.folder / name for one in types for name in one.styles)]
    styles = b"\n".join(_build_style(part) for part in sorted(parts, key=lambda part: part.name))
    beside = {part.name: _build_style(part) for part in sorted((_STATIC / "beside").glob("*.css"))}
    own = (one.folder / name for one in types for name in one.scripts.values())
    modules = [*(_STATIC / "js").glob("*.js"), *own]
    scripts = {part.name: _build_script(part) for part in sorted(modules, key=lambda part: part.name)}
    icon = (_STATIC / FAVICON).read_bytes()
    return {STYLESHEET: styles, **beside, **scripts, ENTRY: _build_entry_script(), FAVICON: icon}


def _build_entry_script() -> bytes:
    """Return the entry script with the modules of the review types in its table."""
    table = "".join(
        f'  "{selector}": "./{module}",\n'
        for declared in DECLARATIONS.values()
        for selector, module in declared.scripts.items()
    )
    entry = (_STATIC / "js" / ENTRY).read_text("utf-8")
    return _SCRIPT_COMMENTS.sub(b"", entry.replace(_SCRIPTS_OF_TYPES, table).encode())


def _build_style(part: Path) -> bytes:
    return _STYLE_SPACES.sub(rb"\1", _STYLE_COMMENTS.sub(b"", part.read_bytes())).replace(b";}", b"}")


def _build_script(part: Path) -> bytes:
    return _SCRIPT_COMMENTS.sub(b"", part.read_bytes())


def digest_files(files: Mapping[str, bytes]) -> str:
    """Return a digest of these files; it is part of their URLs, so that browsers can cache them forever."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(b"%s\0%d\0" % (name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()[:12]


class PageScripts:
    """Finds the script modules that a page will import, so that the browser can fetch them early."""

    def __init__(self) -> None:
        self._has_entry = False
        self._found: set[str] = set()

    def read(self, html: str) -> None:
        """Search another part of the page."""
        self._has_entry = self._has_entry or f"/{ENTRY}" in html
        self._found.update(
            module
            for hooks, module in _list_modules()
            if module not in self._found and any(hook in html for hook in hooks)
        )

    @property
    def names(self) -> list[str]:
        """The modules in the order of the entry script, followed by their imports."""
        if not self._has_entry:
            return []
        found = [module for _, module in _list_modules() if module in self._found]
        wanted = dict.fromkeys([*found, *(more for one in found for more in _list_imports(one))])
        return [name for name in wanted if name != ENTRY]


@cache
def _list_modules() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return each module with the first name in each of its selectors."""
    table = _MODULE.findall(read_assets()[ENTRY].decode())
    return tuple((tuple(_list_hooks(selectors)), module) for selectors, module in table)


def _list_hooks(selectors: str) -> list[str]:
    named = [_HOOK.search(selector) for selector in selectors.split(",")]
    return [found[1] for found in named if found]


@cache
def _list_imports(module: str) -> tuple[str, ...]:
    return tuple(_IMPORT.findall(read_assets().get(module, b"").decode()))


def read_notification_worker() -> bytes:
    """Return the script that shows notifications. It has an address of its own, because browsers keep it."""
    return (_STATIC / "notification_worker.js").read_bytes()
