"""Translations of our texts into one language, read from .po files; unsound ones are left out."""

from collections.abc import Callable, Iterable
from gettext import c2py
from pathlib import Path
from string import Formatter

from babel import Locale
from babel.messages.catalog import Message as Entry
from babel.messages.pofile import PoFileError, read_po


class Catalog:
    """What each English text is in one language; None where there is no sound translation."""

    def __init__(self, locale: Locale, files: Iterable[Path] = ()) -> None:
        """Later files override earlier ones; raises ValueError for a file that cannot be read."""
        self._locale = locale
        self._texts: dict[str, str] = {}
        self._counted: dict[str, tuple[tuple[str, ...], Callable[[int], int]]] = {}
        for file in files:
            self._read(file)

    def text(self, english: str) -> str | None:
        """The translation of a text."""
        return self._texts.get(english)

    def find_plural(self, one: str, count: int) -> str | None:
        """The form for this count of a text known by its English singular."""
        found = self._counted.get(one)
        if found is None:
            return None
        forms, index = found
        return forms[index(abs(count))]

    def _read(self, file: Path) -> None:
        try:
            with file.open("rb") as source:
                catalog = read_po(source, locale=self._locale, abort_invalid=True)
        except PoFileError as error:
            raise ValueError(str(error)) from error
        index = c2py(catalog.plural_expr)
        for entry in catalog:
            if entry.id and not entry.fuzzy:
                self._take(entry, catalog.num_plurals, index)

    def _take(self, entry: Entry, forms: int, index: Callable[[int], int]) -> None:
        if isinstance(entry.id, str):
            translation = str(entry.string)
            if translation and parts_of(translation) == parts_of(entry.id):
                self._texts[entry.id] = translation
            return
        one, many = entry.id
        translations = tuple(entry.string or ())
        if len(translations) == forms and all(fits_count(text, one, many) for text in translations):
            self._counted[one] = (translations, index)
            # The same English text may also be said without a count: then it is about one.
            self._texts.setdefault(one, translations[index(1)])


def parts_of(text: str) -> frozenset[str] | None:
    """The names in braces; None for a text that could not be filled in."""
    try:
        pieces = [piece for piece in Formatter().parse(text) if piece[1] is not None]
    except ValueError:
        return None
    if any(not str(name).isidentifier() or spec or conversion for _, name, spec, conversion in pieces):
        return None
    return frozenset(str(name) for _, name, _, _ in pieces)


def fits_count(translation: str, one: str, many: str) -> bool:
    """Whether a form says all that both texts say; some languages say one or two without the number."""
    given, single, several = parts_of(translation), parts_of(one), parts_of(many)
    if not translation or given is None or single is None or several is None:
        return False
    return (single & several) - {"count"} <= given <= single | several
