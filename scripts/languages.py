"""Catalogs of translations: every text found in the code, with one .po file per language.

`make languages` brings the catalogs up to date and names what is missing. For a translator,
`--missing FILE` writes that as JSON to fill in, and `--take FILE` reads it back.
"""

import argparse
import ast
import io
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from placet.pages.catalog import find_placeholders, fits_count
from placet.pages.languages import FOLDER, LANGUAGES

SOURCE = Path("src/placet")
SHORTEST = 10  # times shorter than English, and something is missing
TRANSLATED = tuple(code for code in LANGUAGES if code != "en")
# The API's own page is for programmers and stays English.
UNTRANSLATED = ("pages/templates/docs.html",)
METHODS = [
    *((path, "ignore") for path in UNTRANSLATED),
    ("**.html", "jinja2"),
    ("**.py", "scripts.languages:from_python"),
]
KEYWORDS = {
    "t": None,
    "tn": (1, 2),
    "message": None,
    "plural_message": (1, 2),
    "phrase": None,
    "phrases": (1, 2),
}
# Headers that would change with every run, or carry no information.
_IDLE = "POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Report-Msgid-Bugs-To|Language-Team"
_IDLE_LINE = re.compile(rf'^"(?:{_IDLE}): .*\n(?:"[^:"]*"\n)*', re.MULTILINE)

Translations = dict[str, str] | dict[str, list[str]]


def extract_texts(root: Path = SOURCE) -> Catalog:
    """Return every translatable text, in English."""
    found = Catalog(project="Placet", fuzzy=False)
    options = {"**.html": {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}}
    for file, line, text, comments, _context in extract_from_dir(
        root, METHODS, options, KEYWORDS, comment_tags=("For translators:",), strip_comment_tags=True
    ):
        found.add(text, None, [(file, line)], auto_comments=comments)
    return found


def from_python(
    source: IO[bytes], keywords: Collection[str], _tags: object, options: object
) -> Iterator[tuple[int, str, tuple[str | None, ...], list[str]]]:
    """Yield the texts in the calls of a module, unlike Babel's reader also inside f-strings."""
    for node in ast.walk(ast.parse(source.read())):
        name = _called_name(node)
        if isinstance(node, ast.Call) and name in keywords:
            yield node.lineno, name, tuple(map(_literal, node.args)), []


def _called_name(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def read(code: str, folder: Path = FOLDER) -> Catalog:
    """Return the catalog of one language, empty if there is none yet."""
    file = folder / f"{code}.po"
    if not file.exists():
        return Catalog(locale=code, project="Placet", fuzzy=False)
    with file.open("rb") as source:
        return read_po(source, locale=code)


def refresh_catalog(code: str, found: Catalog, folder: Path = FOLDER) -> Catalog:
    """Return the catalog with exactly the texts of the code and their translations."""
    catalog = read(code, folder)
    catalog.update(found, no_fuzzy_matching=True)
    return catalog


def format_catalog(catalog: Catalog) -> str:
    """Return the catalog as a .po file, sorted and without locations and dates, so that diffs stay small."""
    buffer = io.BytesIO()
    catalog.header_comment = f"# {LANGUAGES[str(catalog.locale)]}: what the pages say."
    write_po(buffer, catalog, width=100, no_location=True, sort_output=True, ignore_obsolete=True)
    return _IDLE_LINE.sub("", buffer.getvalue().decode())


def list_texts(catalog: Catalog) -> Iterator[Message]:
    """Yield the entries without the header."""
    return (entry for entry in catalog if entry.id)


def check_translation(entry: Message, forms: int) -> str | None:
    """Return what is wrong with a translation, or None."""
    if isinstance(entry.id, str):
        if not entry.string:
            return "missing"
        if _is_too_short(str(entry.string), entry.id):
            return "cut short"
        return (
            None
            if find_placeholders(str(entry.string)) == find_placeholders(entry.id)
            else "other parts in braces"
        )
    given = tuple(entry.string or ())
    if len(given) != forms or not all(given):
        return "missing"
    if any(_is_too_short(form, entry.id[0]) for form in given):
        return "cut short"
    return None if all(fits_count(form, *entry.id) for form in given) else "other parts in braces"


def _is_too_short(translation: str, english: str) -> bool:
    """Return whether the translation is too short to say the same, even in Chinese."""
    return len(translation) * SHORTEST < len(english)


def find_problems(code: str, found: Catalog, folder: Path = FOLDER) -> dict[str, str]:
    """Return each text whose translation is missing or wrong, and why."""
    catalog = refresh_catalog(code, found, folder)
    return {
        _name(entry): wrong
        for entry in list_texts(catalog)
        if (wrong := check_translation(entry, catalog.num_plurals)) is not None
    }


def list_missing(found: Catalog, folder: Path = FOLDER) -> dict[str, dict[str, str | list[str]]]:
    """Return the texts to translate by language; those that depend on a number have a list of forms."""
    return {
        code: {
            _name(entry): "" if isinstance(entry.id, str) else [""] * catalog.num_plurals
            for entry in list_texts(catalog)
            if check_translation(entry, catalog.num_plurals)
        }
        for code in TRANSLATED
        for catalog in [refresh_catalog(code, found, folder)]
    }


def add_translations(code: str, found: Catalog, translations: Translations, folder: Path = FOLDER) -> Catalog:
    """Return the refreshed catalog with these translations in it."""
    catalog = refresh_catalog(code, found, folder)
    for entry in list_texts(catalog):
        translation = translations.get(_name(entry))
        if translation and isinstance(translation, list) is not isinstance(entry.id, str):
            entry.string = tuple(translation) if isinstance(translation, list) else translation
    return catalog


def _name(entry: Message) -> str:
    return entry.id if isinstance(entry.id, str) else entry.id[0]


def main() -> None:
    """Refresh all catalogs, and print what they lack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", type=Path, help="write what is to be translated, as JSON")
    parser.add_argument("--take", type=Path, help="read translations from such a file")
    options = parser.parse_args()
    given = json.loads(options.take.read_text()) if options.take else {}
    found = extract_texts()
    for code in TRANSLATED:
        catalog = add_translations(code, found, given.get(code, {}))
        (FOLDER / f"{code}.po").write_text(format_catalog(catalog))
        wrong = find_problems(code, found)
        print(f"{code}: {len(list(list_texts(catalog)))} texts, {len(wrong)} to translate")
        for text, why in wrong.items():
            print(f"  {why}: {text}")
    if options.missing:
        options.missing.write_text(json.dumps(list_missing(found), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
