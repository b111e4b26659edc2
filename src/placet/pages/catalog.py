"""Read translations into one language from .po files; invalid translations are left out."""

from collections.abc import Callable, Iterable
from gettext import c2py
from pathlib import Path
from string import Formatter

from babel import Locale
from babel.messages.catalog import Message as Entry
from babel.messages.pofile import PoFileError, read_po


class Catalog:
    """The translations of English texts into one language."""

    def __init__(self, locale: Locale, files: Iterable[Path] = ()) -> None:
        """Read the files; later ones override earlier ones. Raises ValueError for an unreadable file."""
        self._locale = locale
        self._texts: dict[str, str] = {}
        self._counted: dict[str, tuple[tuple[str, ...], Callable[[int], int]]] = {}
        for file in files:
            self._read(file)

    def text(self, english: str) -> str | None:
        """Return the translation of a text, or None."""
        return self._texts.get(english)

    def find_plural(self, one: str, count: int) -> str | None:
        """Return the plural form for this count, or None; the text is identified by its English singular."""
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
            if translation and find_placeholders(translation) == find_placeholders(entry.id):
                self._texts[entry.id] = translation
            return
        one, many = entry.id
        translations = tuple(entry.string or ())
        if len(translations) == forms and all(fits_count(text, one, many) for text in translations):
            self._counted[one] = (translations, index)
            # The same English text may also be used without a count; then the singular is right.
            self._texts.setdefault(one, translations[index(1)])


def find_placeholders(text: str) -> frozenset[str] | None:
    """Return the placeholder names in a text; None if it is not a valid template."""
    try:
        pieces = [piece for piece in Formatter().parse(text) if piece[1] is not None]
    except ValueError:
        return None
    if any(not str(name).isidentifier() or spec or conversion for _, name, spec, conversion in pieces):
        return None
    return frozenset(str(name) for _, name, _, _ in pieces)


def fits_count(translation: str, one: str, many: str) -> bool:
    """Whether a plural form has the placeholders of both texts; `{count}` may be missing."""
    given, single, several = find_placeholders(translation), find_placeholders(one), find_placeholders(many)
    if not translation or given is None or single is None or several is None:
        return False
    return (single & several) - {"count"} <= given <= single | several
