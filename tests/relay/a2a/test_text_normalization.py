"""Whatever an agent or a person would read is found, however it is written, and in its true place."""

import base64
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.ports.detector import Match, Scannable
from placet.relay.a2a.text_folding import ORDINARY
from placet.relay.a2a.text_normalization import (
    append_readings,
    find_alternate_readings,
    find_open_form,
    has_single_reading,
    map_matches_to_source,
    substitute_readings,
)

NUMBER = "536-22-8764"
WRITTEN = {
    "a zero-width space": "536\u200b-22-8764",
    "a soft hyphen": "53\u00ad6-22-8764",
    "a word joiner and a direction": "5\u20603\u202e6-22-8764",
    "full width": "５３６－２２－８７６４",
    "mathematical digits": "𝟓𝟑𝟔-22-8764",
    "Arabic digits": "٥٣٦-٢٢-٨٧٦٤",
    "dashes of a typesetter": "536\u201322\u20118764",
    "a minus": "536\u221222\u22128764",
    "a control character": "536\x00-22\x08-8764",
    "variation selectors": "5\ufe0f36-22-8764",
    "tags": "".join(chr(0xE0000 + ord(one)) for one in NUMBER),
    "codes of JSON in a text": r"\u0035\u0033\u0036-22-8764",
    "codes of JSON in JSON in a text": r"\\u0035\\\u00336-22-8764",
    "codes of a program": r"\x35\u{33}6-22-8764",
    "codes of an address": "%3536%2d22%2D8764",
    "codes of a page": "&#53;3&#x36;-22-8764",
    "base64": base64.b64encode(NUMBER.encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(f"??>> {NUMBER} ~~".encode()).decode(),
    "codes of strange digits": r"\uff15\u200b36-22-8764",
    "keycaps": "".join(f"{one}\ufe0f\u20e3" if one.isdigit() else one for one in NUMBER),
    "circled digits": "⑤③⑥-②②-⑧⑦⑥④",
    "negative circled digits": "❺❸❻-❷❷-❽❼❻❹",
    "digits in parentheses": "⑸⑶⑹-⑵⑵-⑻⑺⑹⑷",
    "superscript": "⁵³⁶⁻²²⁻⁸⁷⁶⁴",
    "crossed out": "".join(f"{one}\u0336" for one in NUMBER),
    "several marks": "".join(f"{one}\u0301\u0336\u0489" for one in NUMBER),
    "a mark of another script": "53\u09026-22-8764",
    "a katakana dash": "536ー22ー8764",
    "lines of a box": "536─22━8764",
    "a Chinese one for a dash": "536一22一8764",
    "macrons": "536¯22‾8764",
    "an Arabic full stop": "536۔22۔8764",
    "base64 without padding": "NTM2LTIyLTg3NjQ",
    "wrapped base64": "NTM2L\nTIyLT\r\ng3NjQ",
    "quoted wrapped base64": "NTM2\n> LTIy\n> LTg3\n> NjQ=",
    "spaced base64": "N T M 2 L T I y L T g 3 N j Q",
    "base64 of binary data": base64.b64encode(
        b"\xff\xfe\x80\x91" + NUMBER.encode() + b"\x99\x88\xff"
    ).decode(),
    "base64 of UTF-16": base64.b64encode(NUMBER.encode("utf-16")).decode(),
    "base64 in base64": base64.b64encode(base64.b64encode(NUMBER.encode())).decode(),
    "base64 in strange letters": "ＮＴＭ２ＬＴＩｙＬＴｇ３ＮｊＱ",
    "base32": base64.b32encode(NUMBER.encode()).decode(),
    "hex": NUMBER.encode().hex(),
    "spaced hex": NUMBER.encode().hex(" "),
    "hex of a program": ", ".join(f"0x{one:02x}" for one in NUMBER.encode()),
    "hex in base64": base64.b64encode(NUMBER.encode().hex().encode()).decode(),
    "decimal codes": " ".join(str(one) for one in NUMBER.encode()),
    "binary codes": " ".join(f"{one:08b}" for one in NUMBER.encode()),
    "quoted-printable": "=35=33=36=2D22=2D8764",
    "a soft line break": "536-=\r\n22-8764",
    "octal codes": r"\065\063\066-22-8764",
    "codes of UTF-8 in an address": "%EF%BC%9536-22-8764",
    "surrogates": r"\ud835\udfdd36-22-8764",
    "names of characters": r"\N{DIGIT FIVE}36-22-8764",
    "named entities": "536&hyphen;22&dash;8764",
    "escaped dashes": r"536\-22\-8764",
    "markup": "536-<b>22</b><!-- - -->-8764",
    "Markdown": "536-**22**-`8764`",
    "spaced digits": "5 3 6 - 2 2 - 8 7 6 4",
    "a digit a line": "\n".join(NUMBER),
    "a line break": "536-22-\n8764",
    "spaces around dashes": "536 - 22 -  8764",
    "text from right to left": f"\u202e{NUMBER[::-1]}\u202c",
    "escaped text from right to left": f"&#x202e;{NUMBER[::-1]}",
    "a tag from right to left": f'<bdo dir="rtl">{NUMBER[::-1]}</bdo>',
    "Chinese numerals": "五三六-二二-八七六四",
    "numerals of bankers": "伍叁陆-贰贰-捌柒陆肆",
    "Roman numerals": "ⅤⅢⅥ-ⅡⅡ-ⅧⅦⅥⅣ",
    "Suzhou numerals": "〥〣〦-〢〢-〨〧〦〤",
    "Cyrillic letters that look like digits": "5З6-22-8764",
    "lookalike letters in a number": "5E6-22-8764".replace("E", "З").replace("8", "B").replace("-B", "-8"),
    "a replacement character": "5\ufffd36-\ufffc22-8764",
    "colours of a terminal": "5\x1b[1m36\x1b[0m-22-8764",
    "escaped colours of a terminal": r"5\x1b[1m36\e[0m-22-\033[31m8764",
    "links of a terminal": "536-\x1b]8;;http://a\x0722\x1b]8;;\x07-8764",
    "backspaces": "537\b6-22-87^H^H8764",
    "codes of old servers": "%u0035%u0033%u0036-22-8764",
    "codes with leading zeros": r"&#0000000053;&#x0000000033;\u{00000036}-22-8764",
    "codes of style sheets": r"\35 \33 \36 -22-8764",
    "long codes of style sheets": r"\000035\000033\000036-22-8764",
    "short octal codes": r"\65\063\o{66}\55\62\62\55\70\67\66\64",
    "character data": "536<![CDATA[-22-]]>8764",
    "a processing instruction": "536-<?x y?>22-8764",
    "a long comment": f"536-<!--{'word ' * 90}-->22-8764",
    "a long tag": f"536-<b title='{'word ' * 90}'>22</b>-8764",
    "braces": "{5}{3}{6}{-}{2}{2}{-}{8}{7}{6}{4}",
    "commands of LaTeX": r"536\text{-}22\,-\!8764",
    "single marks of Markdown": "_536_-~22~-^8764^",
    "forum code": "536-[b]22[/b]-8764",
    "a link": "536-[22](http://x)-8764",
    "wide gaps": "    ".join(NUMBER),
    "arrows": "→".join(NUMBER),
    "plus signs": "+".join(NUMBER),
    "quoted digits": ", ".join(f'"{one}"' for one in NUMBER),
    "spaces between groups": "53 6-22-87  64",
    "two dashes": "536--22---8764",
    "adjacent strings": '"536-" + "22-8764"',
    "a quoted line": "536-22-\n> 8764",
    "a continued line": "536-22-\\\n  8764",
    "a soft line break after a number": "536-22-=\n8764",
    "hex of full width": "５３６-２２-８７６４".encode().hex(),
    "hex with a line break": b"536-\n22-8764".hex(),
    "hex of UTF-16": NUMBER.encode("utf-16-be").hex(),
    "hex of an assembler": " ".join(f"{one:02X}h" for one in NUMBER.encode()),
    "quoted hex": ",".join(f"'{one:02x}'" for one in NUMBER.encode()),
    "calls for characters": "+".join(f"chr({one})" for one in NUMBER.encode()),
    "octal numbers": " ".join(f"0o{one:o}" for one in NUMBER.encode()),
    "seven bits": " ".join(f"{one:07b}" for one in NUMBER.encode()),
    "short code points": " ".join(f"U+{one:02X}" for one in NUMBER.encode()),
    "base32 in small letters": base64.b32encode(NUMBER.encode()).decode().lower(),
    "base64 in pieces of a program": '"NTM2" + "LTIy" + "LTg3" + "NjQ="',
}
LETTERS = {
    "Cyrillic letters in a word": "ѕeсrеt",
    "negative squares": "🆂🅴🅲🆁🅴🆃",
    "regional indicators": "🇸🇪🇨🇷🇪🇹",
    "small capitals": "ꜱᴇᴄʀᴇᴛ",
    "circles": "ⓢⓔⓒⓡⓔⓣ",
    "Fraktur": "𝔰𝔢𝔠𝔯𝔢𝔱",
    "crossed out": "s̶e̶c̶r̶e̶t̶",
    "spaced": "s e c r e t",
    "broken up": "se<i></i>cr``et",
    "more marks than a letter has": "ŝ̶ecret",
    "hooks": "ʂɛƈɾɛƭ",
    "letters of three scripts": "ⲥεcrⲉէ".replace("ⲥ", "s"),
    "a sign": "s℮cret",
    "punycode": "xn--ecret-g2e",
    "a hyphenated word": "sec-\nret",
    "dashes": "s-e-c-r-e-t",
}


def list_readings(text: str) -> list[str]:
    return [one.text for one in find_alternate_readings([Scannable("text", text)])]


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_number_is_found_in_every_spelling(written: str) -> None:
    assert any(NUMBER in one for one in list_readings(f"it is {written} indeed"))
    quoted = written.encode()
    assert not has_single_reading(quoted) or any(
        sign in quoted for sign in (b"\x00", b"\x08")
    )  # escaped in JSON


@pytest.mark.parametrize("written", LETTERS.values(), ids=LETTERS)
def test_word_is_found_in_every_alphabet(written: str) -> None:
    assert any("secret" in one.lower() for one in list_readings(f"the {written} is out"))
    assert not has_single_reading(written.encode())


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_growing_text_is_open_where_another_reading_begins(written: str) -> None:
    text = f"please note that it is {written}"
    numbers = [one for one in find_alternate_readings([Scannable("", text)]) if NUMBER in one.text]
    start = min(one.spans()[one.text.index(NUMBER)][0] for one in numbers)
    for end in range(start + 1, len(text)):
        readings = find_alternate_readings([Scannable("", text[:end])])
        firsts = [one.spans()[-len(NUMBER)][0] for one in readings if len(one.text) >= len(NUMBER)]
        assert min(find_open_form(text[:end]) - len(NUMBER), *firsts, end) <= start


def test_prose_is_hardly_ever_open() -> None:
    prose = "The quick report about weather in several cities was prepared by the agent yesterday. " * 2
    lengths = [end - find_open_form(prose[:end]) for end in range(20, len(prose))]
    assert max(lengths) < 12


def test_word_of_nothing_but_lookalikes_is_read_as_latin() -> None:
    assert list_readings("ваш ѕосіаӏ номер") == ["ваш social номер"]


def test_letters_that_look_like_digits_are_digits_inside_a_number() -> None:
    assert list_readings("it is 1O1-2o-30O4") == ["it is 101-20-3004"]
    assert list_readings("Ohio is 2 OK") == []


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_finding_has_offsets_in_the_original_text(written: str) -> None:
    piece = Scannable("text", f"Müller – {written}!")
    others = find_alternate_readings([piece])
    place, start = next(
        (place, one.text.index(NUMBER)) for place, one in enumerate(others) if NUMBER in one.text
    )
    found = Match(rule=0, piece=1 + place, start=start, end=start + len(NUMBER), entity="N")
    [told] = map_matches_to_source([found], [piece], append_readings([piece], others))
    assert told.piece == 0
    rest = piece.text[: told.start] + piece.text[told.end :]
    assert not any(part in one for one in (rest, *list_readings(rest)) for part in ("536", "8764"))
    assert told.start >= len("Müller – ")


@pytest.mark.parametrize(
    "text",
    [
        "plain words, 100 % of them, and a Müller & Söhne",
        "internationalization SendStreamingMessage",
        "한국어 텍스트",
        "これは日本語の文章です。ページ一覧",
        "Это обычный русский текст, и в нём нет секретов. А он сам?",
        "Ceci est un été à Besançon, déjà vu par Zoë.",
        "Order 2024-10-05, 14:30, 3 items, 20 % off; e.g. I or a b c",
        "हिन्दी में एक वाक्य",
        "9b2e8a57-1111-4a2a-8c3d-0123456789ab",
        "",
    ],
)
def test_plain_text_has_no_alternate_reading(text: str) -> None:
    assert list_readings(text) == []


def test_ordinary_characters_read_as_themselves() -> None:
    for first, last in ORDINARY:
        signs = [chr(code) for code in range(first, last + 1) if code >= 0x80]
        assert list_readings("、".join(signs)) == []
        assert not any(map(unicodedata.combining, signs))


def test_files_inside_texts_are_not_plain_text() -> None:
    assert not has_single_reading(b'{"text": "see data:;base64,AAAA"}')


def test_combining_marks_are_composed() -> None:
    assert list_readings("Mu\u0308ller") == ["Müller"]


def test_duplicate_matches_merge_and_unlocated_ones_have_no_piece() -> None:
    piece = Scannable("text", "ａ secret")
    scanned = append_readings([piece], find_alternate_readings([piece]))
    twice = [Match(rule=0, piece=number, start=2, end=8, entity="N", score=number / 2) for number in (0, 1)]
    assert map_matches_to_source(twice, [piece], scanned) == [
        Match(rule=0, piece=0, start=2, end=8, entity="N", score=0.5)
    ]
    nowhere = Match(rule=0, piece=1, start=2, end=80, entity="N")
    assert [one.piece for one in map_matches_to_source([nowhere], [piece], scanned)] == [-1]


def test_slow_detectors_get_each_text_once() -> None:
    pieces = [Scannable("a", "plain"), Scannable("b", "５ \\u0036"), Scannable("c", "%37")]
    scanned = substitute_readings(pieces, find_alternate_readings(pieces))
    assert [(one.path, one.text) for one in scanned.texts] == [
        *(("a", "plain"), ("b", "5 \\u0036"), ("c", "%37")),
        *(("b", "5 6"), ("c", "7")),
    ]
    found = [Match(rule=0, piece=number, start=0, end=1, entity="N") for number in (1, 3, 4)]
    assert [(one.piece, one.start, one.end) for one in map_matches_to_source(found, pieces, scanned)] == [
        *((1, 0, 1), (2, 0, 3)),
    ]
    beyond = Match(rule=0, piece=1, start=0, end=99, entity="N")
    assert [one.piece for one in map_matches_to_source([beyond], pieces, scanned)] == [-1]


@given(st.text(max_size=60))
def test_offsets_lie_within_the_text_and_quick_checks_miss_nothing(text: str) -> None:
    found = find_alternate_readings([Scannable("text", text)])
    for one in found:
        spans = one.spans()
        assert len(spans) == len(one.text)
        assert all(0 <= start < end <= len(text) for start, end in spans)
    escaped = "\\" in text or any(ord(sign) < 0x20 for sign in text)
    encoded = text.encode("utf-8", "replace")
    if has_single_reading(encoded) and not escaped:
        assert found == []


@pytest.mark.parametrize(
    "repeated",
    [
        "\\",
        "\\u",
        "&#",
        "a",
        "e\u0301",
        "%",
        "=a",
        "<!--",
        "<a ",
        "5\b",
        "\x1b[",
        "53 ",
        "5(",
        "五",
        "a-",
        "weather ⠎ ",
    ],
)
def test_long_texts_of_punctuation_are_normalised_quickly(repeated: str) -> None:
    text = repeated * (400_000 // len(repeated))
    began = time.thread_time()
    find_alternate_readings([Scannable("text", text)])
    assert time.thread_time() - began < 10
