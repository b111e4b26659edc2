"""Hidden characters become visible marks; honest text stays as it is."""

import sys
import unicodedata

import pytest

from placet.text.characters import contains_hidden, mark_hidden

# Format characters that have a shape of their own.
SHAPED = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}


@pytest.mark.parametrize(
    "text",
    [
        "Plain words, 100 % – “quoted”…",
        "Zeile eins\nZeile zwei\tTab",
        "naïve café Ångström",
        "你好，世界",
        "مرحبا بالعالم",
        "שלום עולם",
        "नमस्ते क्\u200dष",
        "می\u200cخواهم",
        "👩\u200d👩\u200d👧 ❤️ 1️⃣ 🏳️\u200d🌈 👍🏽",
        "1\u00a0000\u202f€ \u2009 wide\u3000space",
        "x² ≤ ∞ → ✓",
    ],
)
def test_honest_text_is_left_alone(text: str) -> None:
    assert mark_hidden(text) == text
    assert not contains_hidden(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("invoice\u202efdp.exe", "invoice⟦U+202E⟧fdp.exe"),
        ("pay\u200bpal", "pay⟦U+200B⟧pal"),
        ("pay\u200dpal", "pay⟦U+200D⟧pal"),
        ("a\x00b\x1b[31mc", "a⟦U+0000⟧b⟦U+001B⟧[31mc"),
        ("\ufeffstart", "⟦U+FEFF⟧start"),
        ("soft\xadhyphen", "soft⟦U+00AD⟧hyphen"),
        ("tag\U000e0041", "tag⟦U+E0041⟧"),
        ("half\ud800", "half⟦U+D800⟧"),
        ("a\u2028b", "a⟦U+2028⟧b"),
        ("blank\u3164", "blank⟦U+3164⟧"),
        ("private\ue000", "private⟦U+E000⟧"),
        ("run\ufe0f\ufe0f\ufe0f", "run⟦U+FE0F⟧⟦U+FE0F⟧⟦U+FE0F⟧"),
        ("\ufe0f", "⟦U+FE0F⟧"),
        ("data\U000e0101", "data⟦U+E0101⟧"),
        ("\u2066isolate\u2069", "⟦U+2066⟧isolate⟦U+2069⟧"),
    ],
)
def test_hidden_characters_are_shown_by_number(text: str, shown: str) -> None:
    assert mark_hidden(text) == shown
    assert contains_hidden(text)


def test_line_ends_of_all_systems_are_line_ends() -> None:
    assert mark_hidden("a\r\nb\rc\nd") == "a\nb\nc\nd"


def test_whatever_unicode_calls_format_control_or_private_is_marked() -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    missed = [
        f"U+{point:04X}"
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in hidden
        and chr(point) not in "\n\t\r"
        and point not in SHAPED
        and mark_hidden(f"a{chr(point)}b") == f"a{chr(point)}b"
    ]
    assert missed == []


def test_letters_numbers_and_symbols_are_never_marked() -> None:
    wrong = [
        f"U+{point:04X}"
        for point in range(0x20000)
        if unicodedata.category(chr(point))[0] in "LNPS"
        and mark_hidden(chr(point)) != chr(point)
        and point not in (0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0)
    ]
    assert wrong == []


def test_values_that_are_no_text_are_shown_too() -> None:
    assert mark_hidden(5) == "5"
