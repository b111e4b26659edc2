"""The languages of the pages, one .po file each besides English, and how one is chosen."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from placet.pages.catalog import Catalog
from placet.pages.language import ENGLISH, Language, get_locale

FOLDER = Path(__file__).parent
# The names that the language switch shows.
LANGUAGES: Mapping[str, str] = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "zh": "中文",
    "ar": "العربية",
}

# Browsers send shorter headers.
MAX_HEADER_LENGTH = 1_000
_TAG = r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*"
_RANGE = re.compile(rf"\s*({_TAG}|\*)\s*(?:;\s*[qQ]\s*=\s*([01](?:\.[0-9]{{0,3}})?)\s*)?")


class Languages:
    """The built-in languages, and those of a folder whose .po files add languages or override texts."""

    def __init__(self, extra: Path | None = None) -> None:
        """Read the folder; raise ValueError for a file that has no language name or is unreadable."""
        own = {code: [FOLDER / f"{code}.po"] for code in LANGUAGES if code != ENGLISH.code}
        files: dict[str, list[Path]] = {ENGLISH.code: [], **own}
        for file in sorted(extra.glob("*.po")) if extra else ():
            files.setdefault(file.stem.replace("_", "-"), []).append(file)
        self._files = files
        self._loaded: dict[str, Language] = {}
        self._codes = {code.lower(): code for code in files}
        if extra:
            for code in files:
                self.get(code)

    def __iter__(self) -> Iterator[Language]:
        """Yield all languages, English first."""
        return (self.get(code) for code in self._files)

    def get(self, code: str) -> Language:
        """Return the language with this code, read once; raise KeyError if there is none."""
        if code not in self._loaded:
            self._loaded[code] = _read(code, self._files[code])
        return self._loaded[code]

    def choose(self, accept_language: str | None = None, chosen: str | None = None) -> Language:
        """Return the chosen language if available, else the one the browser prefers, else English."""
        code = self._look_up(chosen or "")
        for tag in parse_accept_language(accept_language or "") if code is None else ():
            code = ENGLISH.code if tag == "*" else self._look_up(tag)
            if code:
                break
        return self.get(code or ENGLISH.code)

    def _look_up(self, tag: str) -> str | None:
        """Look up a tag as in RFC 4647, 3.4, removing subtags from its end until one matches."""
        pieces = tag[:MAX_HEADER_LENGTH].lower().replace("_", "-").split("-")
        for length in range(min(len(pieces), 8), 0, -1):
            if code := self._codes.get("-".join(pieces[:length])):
                return code
        return None


def parse_accept_language(accept_language: str) -> list[str]:
    """Return the language ranges of the header by preference; invalid ones are ignored."""
    ranges = [_RANGE.fullmatch(part) for part in accept_language[:MAX_HEADER_LENGTH].split(",")]
    weighed = [(float(found[2] or "1"), found[1]) for found in ranges if found]
    return [tag for quality, tag in sorted(weighed, key=lambda one: -one[0]) if quality > 0]


@cache
def languages() -> Languages:
    """Return the built-in languages."""
    return Languages()


def choose(accept_language: str | None = None, chosen: str | None = None) -> Language:
    """Choose one of the built-in languages."""
    return languages().choose(accept_language, chosen)


def _read(code: str, files: list[Path]) -> Language:
    if code == ENGLISH.code and not files:
        return ENGLISH
    try:
        catalog = Catalog(get_locale(code), [file for file in files if file.exists()])
        return Language(code, catalog, name=LANGUAGES.get(code))
    except ValueError as error:
        raise ValueError(f"{files[-1]} cannot be used: {error}") from error
