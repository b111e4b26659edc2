"""The pages in every language: complete, the right one for each person, and nothing that breaks a page."""

import ast
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import Environment
from markupsafe import Markup

from placet.pages.language import ENGLISH, Language
from placet.pages.languages import FOLDER, LANGUAGES, Languages, choose, languages
from placet.text.wording import message, plural_message
from scripts.languages import (
    SOURCE,
    TRANSLATED,
    UNTRANSLATED,
    add_translations,
    extract_texts,
    find_problems,
    format_catalog,
    refresh_catalog,
)
from tests.pages.gallery import every_view, rendered

find_texts = cache(extract_texts)
TEMPLATES = sorted(
    path for path in SOURCE.rglob("*.html") if str(path.relative_to(SOURCE)) not in UNTRANSLATED
)


# Names that are the same in every language.
# "Approved" is what an agent is told, in every language.
UNTRANSLATABLE = {"Placet", "UTC", "Markdown", "HTML", "Approved"}


# Complete


@pytest.mark.parametrize("code", TRANSLATED)
def test_every_text_is_translated_with_all_its_parts(code: str) -> None:
    assert find_problems(code, find_texts()) == {}, "run `make languages`, then translate these"


@pytest.mark.parametrize("code", TRANSLATED)
def test_the_catalogs_hold_what_the_pages_say_and_nothing_else(code: str) -> None:
    kept = (FOLDER / f"{code}.po").read_text(encoding="utf-8")
    assert kept == format_catalog(refresh_catalog(code, find_texts())), "run `make languages`"


def test_texts_are_found_in_templates_words_and_messages() -> None:
    found = {entry.id if isinstance(entry.id, str) else entry.id[0] for entry in find_texts() if entry.id}
    assert {
        "Skip to the question",
        "If you approve",
        "Fill this in.",
        "Write at least {minimum} character.",
    } <= found


class _Bare(HTMLParser):
    """Collects the words of a template that no language gets to see."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self._note(re.sub(r'[\w-]+="[^"]*"', "", data))  # macros hold parts of tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("aria-label", "aria-description", "alt", "title", "placeholder"):
                self._note(value or "")

    def _note(self, text: str) -> None:
        self.words += re.findall(r"[^\W\d_]{2,}", re.sub(r"{\w+}", "", text))  # a script fills in such parts


def test_templates_say_nothing_past_the_catalogs() -> None:
    lexer = Environment(trim_blocks=True, lstrip_blocks=True)
    bare = {}
    for path in TEMPLATES:
        reader = _Bare()
        pieces = lexer.lex(path.read_text(encoding="utf-8"))
        reader.feed("".join(text if kind == "data" else "" for _, kind, text in pieces))
        bare[path.name] = reader.words
    assert {name: words for name, words in bare.items() if words} == {}


def _squashed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def test_a_page_in_another_language_has_english_words_only_where_they_were_sent() -> None:
    chinese, left = choose("zh"), {}
    names = set(re.findall(r"[A-Za-z]{2,}", " ".join(LANGUAGES.values())))
    for name, view in every_view().items():
        sent = _squashed(repr(view).replace("\\n", " "))
        english, translated = _Bare(), _Bare()
        english.feed(rendered(view))
        translated.feed(rendered(view, chinese))
        same = set(english.words) & set(re.findall(r"[A-Za-z]{2,}", " ".join(translated.words)))
        left[name] = {word for word in same - names - UNTRANSLATABLE if _squashed(word) not in sent}
    assert {name: words for name, words in left.items() if words} == {}


def test_what_is_wrong_with_an_answer_can_be_translated() -> None:
    """Whatever `misfit` says reaches a page, so it must remember its template."""
    bare = [
        f"{path}:{call.lineno}"
        for path in sorted((SOURCE / "reviews").rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "misfit"
        if isinstance(call.args[1], ast.Constant | ast.JoinedStr)
    ]
    assert bare == []


# The right one


@pytest.mark.parametrize(
    ("accept", "chosen", "code"),
    [
        (None, None, "en"),
        ("", "", "en"),
        ("de", None, "de"),
        ("de-CH", None, "de"),
        ("DE-ch, en;q=0.9", None, "de"),
        ("zh-Hans-CN", None, "zh"),
        ("zh-TW,zh;q=0.9", None, "zh"),
        ("ar-EG,ar;q=0.8,en;q=0.5", None, "ar"),
        ("pt-BR,pt;q=0.9,es;q=0.8,en;q=0.7", None, "es"),
        ("en;q=0.3, fr;q=0.8, de;q=0.5", None, "fr"),
        ("de;q=0, fr;q=0.1", None, "fr"),
        ("de;q=0", None, "en"),
        ("*", None, "en"),
        ("tlh, *;q=0.5, de;q=0.1", None, "en"),
        ("fr ; q=0.4 , es", None, "es"),
        ("de;q=2, fr;q=x, es;q=0.1", None, "es"),
        ("de", "fr", "fr"),
        ("de", "FR-ca", "fr"),
        ("de", "tlh", "de"),
        (None, "../../etc/passwd", "en"),
        ("d" * 100_000, "x" * 100_000, "en"),
        ("en-" * 50_000, None, "en"),
        ("q=1;;;,,,=;de", None, "en"),
        ("dé, ٣, 中文", "عربي", "en"),
    ],
)
def test_a_person_gets_the_best_language_there_is(accept: str | None, chosen: str | None, code: str) -> None:
    assert choose(accept, chosen).code == code


@given(st.none() | st.text() | st.from_regex(r"([a-z*-]{1,9}(;q=[0-9.]{1,4})?,? ?)+"), st.none() | st.text())
@example("*;q=0", "-")
@example("-" * 5000, "_" * 5000)
def test_no_header_and_no_cookie_breaks_a_page(accept: str | None, chosen: str | None) -> None:
    assert choose(accept, chosen).code in LANGUAGES


def test_the_switch_names_each_language_in_itself() -> None:
    assert [language.name for language in languages()] == [
        "English",
        "Deutsch",
        "Español",
        "Français",
        "中文",
        "العربية",
    ]


def test_only_arabic_runs_to_the_left() -> None:
    assert {language.code for language in languages() if language.direction == "rtl"} == {"ar"}


# What a page says


def test_numbers_are_written_as_people_there_write_them() -> None:
    written_there = {language.code: language.number(1234567.891) for language in languages()}
    assert written_there == {
        "en": "1,234,567.891",
        "de": "1.234.567,891",
        "es": "1.234.567,891",
        "fr": "1\u202f234\u202f567,891",
        "zh": "1,234,567.891",
        "ar": "1,234,567.891",
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (2026, "2026"),
        (10_000, "10.000"),
        (-5, "-5"),
        (0.1 + 0.2, "0,30000000000000004"),
        (1e-300, "1e-300"),
        (2**80, str(2**80)),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_no_digit_of_a_number_is_lost(value: float, words: str) -> None:
    assert choose("de").number(value) == words


def test_a_minus_stays_before_its_number_from_right_to_left() -> None:
    assert choose("ar").number(-5) == "\u200e-5"


def test_lists_read_as_sentences() -> None:
    assert ENGLISH.listing(["a", "b", "c"]) == "a, b and c"
    assert choose("de").listing(["a", "b", "c"]) == "a, b und c"


def _catalog(folder: Path, code: str, text: str, header: str = "") -> Language:
    start = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n{header}"\n\n'
    (folder / f"{code}.po").write_text(start + text, encoding="utf-8")
    return Languages(folder).get(code)


def test_arabic_has_six_forms(tmp_path: Path) -> None:
    forms = "\n".join(
        f'msgstr[{number}] "{name}"' for number, name in enumerate(("0", "1", "2", "few", "100", "11"))
    )
    arabic = _catalog(tmp_path, "ar", f'msgid "x {{count}}"\nmsgid_plural "xs {{count}}"\n{forms}\n')
    said = [arabic.tn("x {count}", "xs {count}", count) for count in (0, 1, 2, 3, 11, 100)]
    assert said == ["0", "1", "2", "few", "11", "100"]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_count_of_every_text_can_be_said(code: str) -> None:
    language = languages().get(code)
    for one, many in [entry.id for entry in find_texts() if isinstance(entry.id, tuple)]:
        names = re.findall(r"{(\w+)}", many)
        for count in (0, 1, 2, 3, 11, 100):
            assert language.tn(one, many, count, **{name: "x" for name in names if name != "count"})


@pytest.mark.parametrize("text", ['msgstr "S"', 'msgstr ""'])
def test_a_translation_that_was_cut_short_is_named(tmp_path: Path, text: str) -> None:
    english = "Say what should change, or change it yourself."
    _catalog(tmp_path, "de", f'msgid "{english}"\n{text}\n')
    assert find_problems("de", find_texts(), tmp_path)[english] in ("cut short", "missing")
    taken = add_translations(
        "de", find_texts(), {"One of them does not fit. What to write instead stands beside it.": "Eine"}
    )
    assert not [entry for entry in taken if entry.string == "Eine"]


@pytest.mark.parametrize(
    "broken", ["Hallo", "{who} {more}", "{who", "{}", "{0}", "{who.__class__}", "{who!r}", "{who:>9}"]
)
def test_a_broken_translation_gives_way_to_english(tmp_path: Path, broken: str) -> None:
    german = _catalog(tmp_path, "de", f'msgid "Hello {{who}}, you"\nmsgstr "{broken}"\n')
    assert german.t("Hello {who}, you", who="Ada") == "Hello Ada, you"
    assert german.say(message("Hello {who}, you", who="Ada")) == "Hello <bdi>Ada</bdi>, you"


def test_unfinished_translations_give_way_to_english(tmp_path: Path) -> None:
    vague = '#, fuzzy\nmsgid "Hello"\nmsgstr "Hallo"\n\n'
    half = 'msgid "x"\nmsgid_plural "xs"\nmsgstr[0] "y"\nmsgstr[1] ""\n'
    german = _catalog(tmp_path, "de", vague + half)
    assert (german.t("Hello"), german.tn("x", "xs", 2)) == ("Hello", "xs")


def test_parts_are_escaped_in_every_language(tmp_path: Path) -> None:
    german = _catalog(tmp_path, "de", 'msgid "By {who}"\nmsgstr "Von <{who}>"\n')
    assert german.t("By {who}", who="<b>{who}</b>") == "Von &lt;&lt;b&gt;{who}&lt;/b&gt;&gt;"
    assert german.t("By {who}", who=Markup("<b>x</b>")) == "Von &lt;<b>x</b>&gt;"


def test_messages_show_what_hides_in_their_parts_and_keep_it_apart() -> None:
    wrong = message("These were not offered: {names}.", names="<i>\u202eevil")
    assert ENGLISH.say(wrong) == "These were not offered: <bdi>&lt;i&gt;⟦U+202E⟧evil</bdi>."
    assert ENGLISH.say("\u202eevil") == "⟦U+202E⟧evil"


def test_counts_in_messages_follow_the_language(tmp_path: Path) -> None:
    english = 'msgid "{count} file"\nmsgid_plural "{count} files"\n'
    forms = 'msgstr[0] "{count} fichier"\nmsgstr[1] "{count} fichiers"\n'
    french = _catalog(tmp_path, "fr", english + forms, "Plural-Forms: nplurals=2; plural=(n > 1);\\n")
    said = [
        french.say(plural_message("{count} file", "{count} files", count=count)) for count in (0, 1, 12_000)
    ]
    assert said == ["0 fichier", "1 fichier", "12\u202f000 fichiers"]


# A service's own


def test_a_service_adds_languages_and_words_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "de.po").write_text('msgid "Approve"\nmsgstr "Freigeben"\n', encoding="utf-8")
    (tmp_path / "pt_BR.po").write_text('msgid "Approve"\nmsgstr "Aprovar"\n', encoding="utf-8")
    (tmp_path / "en.po").write_text('msgid "Approve"\nmsgstr "Sign off"\n', encoding="utf-8")
    spoken = Languages(tmp_path)
    assert spoken.choose("pt-BR").code == "pt-BR"
    assert {code: spoken.get(code).t("Approve") for code in ("de", "pt-BR", "en")} == {
        "de": "Freigeben",
        "pt-BR": "Aprovar",
        "en": "Sign off",
    }
    assert spoken.get("pt-BR").name == "Português (Brasil)"
    assert spoken.get("de").t("Reject") == languages().get("de").t("Reject")
    assert ENGLISH.t("Approve") == "Approve"


@pytest.mark.parametrize(
    ("name", "content"), [("nonsense.po", b""), ("de.po", b"msgid x"), ("de.po", b"\xff\xfe")]
)
def test_a_catalog_that_cannot_be_used_is_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        Languages(tmp_path)
