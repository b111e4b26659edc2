"""The languages that pages speak, one .po file each beside their English, and which one a person gets."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from placet.pages.catalog import Catalog
from placet.pages.language import ENGLISH, Language, locale_of

FOLDER = Path(__file__).parent
# Each under its own name, for the switch.
LANGUAGES: Mapping[str, str] = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "zh": "中文",
    "ar": "العربية",
}

# What is longer is not the header of a browser.
LONGEST_HEADER = 1_000
_TAG = r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*"
_RANGE = re.compile(rf"\s*({_TAG}|\*)\s*(?:;\s*[qQ]\s*=\s*([01](?:\.[0-9]{{0,3}})?)\s*)?")


class Languages:
    """Ours, and those of a folder whose .po files add languages or override single texts of ours."""

    def __init__(self, extra: Path | None = None) -> None:
        """Raises ValueError for a file of the folder that is not named after a language or cannot be read."""
        own = {code: [FOLDER / f"{code}.po"] for code in LANGUAGES if code != ENGLISH.code}
        files: dict[str, list[Path]] = {ENGLISH.code: [], **own}
        for file in sorted(extra.glob("*.po")) if extra else ():
            files.setdefault(file.stem.replace("_", "-"), []).append(file)
        self._files = files
        self._spoken: dict[str, Language] = {}
        self._codes = {code.lower(): code for code in files}
        if extra:
            for code in files:
                self.get(code)

    def __iter__(self) -> Iterator[Language]:
        """All of them, English first."""
        return (self.get(code) for code in self._files)

    def get(self, code: str) -> Language:
        """The language of this code, read once; raises KeyError for one that is not spoken here."""
        if code not in self._spoken:
            self._spoken[code] = _read(code, self._files[code])
        return self._spoken[code]

    def choose(self, accept_language: str | None = None, chosen: str | None = None) -> Language:
        """What the person chose if it is spoken here, else what the browser prefers, else English."""
        code = self._lookup(chosen or "")
        for tag in parse_accept_language(accept_language or "") if code is None else ():
            code = ENGLISH.code if tag == "*" else self._lookup(tag)
            if code:
                break
        return self.get(code or ENGLISH.code)

    def _lookup(self, tag: str) -> str | None:
        """RFC 4647, 3.4: the tag, then ever less of it from its end."""
        pieces = tag[:LONGEST_HEADER].lower().replace("_", "-").split("-")
        for length in range(min(len(pieces), 8), 0, -1):
            if code := self._codes.get("-".join(pieces[:length])):
                return code
        return None


def parse_accept_language(accept_language: str) -> list[str]:
    """The language ranges of the header, the most wanted first; what cannot be read is passed over."""
    ranges = [_RANGE.fullmatch(part) for part in accept_language[:LONGEST_HEADER].split(",")]
    weighed = [(float(found[2] or "1"), found[1]) for found in ranges if found]
    return [tag for quality, tag in sorted(weighed, key=lambda one: -one[0]) if quality > 0]


@cache
def languages() -> Languages:
    """Those that come with Placet."""
    return Languages()


def choose(accept_language: str | None = None, chosen: str | None = None) -> Language:
    """Which of those that come with Placet a person gets."""
    return languages().choose(accept_language, chosen)


def _read(code: str, files: list[Path]) -> Language:
    if code == ENGLISH.code and not files:
        return ENGLISH
    try:
        catalog = Catalog(locale_of(code), [file for file in files if file.exists()])
        return Language(code, catalog, name=LANGUAGES.get(code))
    except ValueError as error:
        raise ValueError(f"{files[-1]} cannot be used: {error}") from error
