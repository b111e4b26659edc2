"""Every consumer of foreign text treats the characters of the one table as hidden."""

import ast
import json
import re
import sys
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest

from placet.channels.texts import TextLimits, build_card_lines
from placet.desk.case_building import _UNSTORABLE
from placet.errors import AddressRefused
from placet.hook.terminal import _mark_hidden as shown_by_the_hook
from placet.pages.content.markup_writer import MarkupWriter
from placet.pages.language import ENGLISH
from placet.ports.channel import Card
from placet.protocol.addresses import check_url
from placet.relay.a2a.text_normalization import normalize_text
from placet.text.characters import (
    ALWAYS_HIDDEN,
    OPEN,
    OTHER_CONTROLS,
    escape_hidden_in_json,
    is_hidden,
    is_storable,
    mark_hidden,
    replace_unstorable,
)
from placet.text.truncation import to_paragraphs, to_single_line

SOURCE = Path(__file__).parents[2] / "src/placet"
ERASING = "\r\b"  # read as a terminal shows them: what they erase is gone
LAST_CONTROL = 0x9F  # code before it has reasons of its own to name control characters
HIDDEN = [chr(point) for point in range(sys.maxunicode + 1) if is_hidden(chr(point))]
# The first and the last of each run of neighbours.
EDGES = [
    one
    for one in HIDDEN
    if not all(
        0 <= point <= sys.maxunicode and is_hidden(chr(point)) for point in (ord(one) - 1, ord(one) + 1)
    )
]


def card(prompt: str) -> Card:
    return Card(
        prompt=prompt,
        message="",
        type="approval",
        source="Acme",
        review_url="https://acme.example/review/1",
        expires_at=datetime(2026, 11, 17, tzinfo=UTC),
        default_action="reject",
    )


CONSUMERS = {
    "text": mark_hidden,
    "single line": to_single_line,
    "paragraphs": to_paragraphs,
    "page": MarkupWriter(ENGLISH).write_text,
    "messenger": lambda text: build_card_lines(card(text), TextLimits()).prompt,
    "hook's terminal": shown_by_the_hook,
}


@pytest.mark.parametrize("consumer", CONSUMERS.values(), ids=CONSUMERS)
def test_every_consumer_marks_every_hidden_character(consumer):
    unmarked = [
        f"U+{ord(one):04X}" for one in EDGES if not one.isspace() and OPEN not in consumer(f"a {one}b")
    ]
    assert unmarked == []


def test_json_on_a_terminal_has_no_hidden_characters_and_means_the_same():
    for one in EDGES:
        text = json.dumps({"a": f"a {one}b"}, ensure_ascii=False)
        escaped = escape_hidden_in_json(text)
        assert one not in escaped
        assert json.loads(escaped) == json.loads(text)
    emoji = '"❤️ 👩‍💻 می‌خواهم"'
    assert escape_hidden_in_json(emoji) == emoji


def test_the_relay_reads_text_without_its_hidden_characters():
    tags = range(0xE0020, 0xE007F)  # read as the ASCII characters that they stand for
    kept = [
        one
        for one in EDGES
        if ord(one) not in tags and one not in ERASING and normalize_text(f"4{one}1") != "41"
    ]
    assert [f"U+{ord(one):04X}" for one in kept if not unicodedata.normalize("NFKC", one).isspace()] == []


def test_no_address_has_hidden_characters():
    for one in EDGES:
        with pytest.raises(AddressRefused):
            check_url(f"https://acme.example/a{one}b")


def test_what_cannot_be_stored_is_hidden_and_has_a_visible_sign():
    unstorable = [chr(point) for point in range(sys.maxunicode + 1) if not is_storable(chr(point))]
    assert all(is_hidden(one) for one in unstorable)
    shown = replace_unstorable("".join(unstorable))
    assert len(shown) == len(unstorable)
    assert is_storable(shown)
    assert mark_hidden(shown) == shown


def test_a_case_refuses_in_json_what_cannot_be_stored():
    for one in HIDDEN:
        if "\ud800" <= one <= "\udfff":
            continue  # JSON of a lone surrogate is refused before
        found = _UNSTORABLE.search(json.dumps(one, ensure_ascii=False).encode()) is not None
        assert found is not is_storable(one), f"U+{ord(one):04X}"


def read_class_in_script(script: str, name: str) -> re.Pattern[str]:
    """The character class of a constant in a script of the pages."""
    written = re.search(rf"const {name} = /\[(.*)\]/gu?;", (SOURCE / "pages/static/js" / script).read_text())
    assert written
    as_python = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\U{int(found[1], 16):08x}", written[1])
    return re.compile(f"[{as_python}]")


@pytest.mark.parametrize(
    ("script", "name", "table", "apart"),
    [
        ("edit.js", "HIDDEN", ALWAYS_HIDDEN, "\r"),  # a text box has no carriage returns
        ("send.js", "UNSEEN", OTHER_CONTROLS, ""),
    ],
)
def test_a_script_of_the_pages_has_the_same_characters_as_the_table(script, name, table, apart):
    in_script, in_table = read_class_in_script(script, name), re.compile(f"[{table}]")
    differing = [
        f"U+{point:04X}"
        for point in range(sys.maxunicode + 1)
        if bool(in_script.match(chr(point))) != bool(in_table.match(chr(point))) and chr(point) != apart
    ]
    assert differing == []


NUMBER_OR_CATEGORY = re.compile(
    r"\b0x([0-9a-f]+)\b|unicodedata\.category|\bimport .*\bcategory\b", re.IGNORECASE
)


def names_a_hidden_character(source: str) -> bool:
    """Whether Python code has a hidden character, however it is written, or asks Unicode for categories."""
    for found in NUMBER_OR_CATEGORY.finditer(source):
        point = int(found[1] or "202e", 16)
        if LAST_CONTROL < point <= sys.maxunicode and is_hidden(chr(point)):
            return True
    literals = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    foreign = (one for one in literals if isinstance(one, str) and not one.isascii())
    return any(ord(one) > LAST_CONTROL and is_hidden(one) for literal in foreign for one in literal)


def test_no_other_module_has_a_table_of_hidden_characters():
    elsewhere = sorted(
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not {"text", "testing"} & set(path.parts) and names_a_hidden_character(path.read_text())
    )
    assert elsewhere == ALLOWED


ALLOWED = [
    "hook/coding_agents/json_text.py",  # keeps a byte order mark of the host's settings
    "pages/language.py",  # writes a left-to-right mark itself
    "protocol/addresses.py",  # also refuses spaces and unassigned characters
    "protocol/argument_patterns.py",  # combining marks are part of a name
    "relay/a2a/chunk_template.py",  # marks a probe that no agent writes
    "relay/a2a/text_compaction.py",  # knows numerals, and the order in which text is shown
    "relay/a2a/text_decoding.py",  # decodes escapes of any character
    "relay/a2a/text_extraction.py",  # skips a byte order mark before markup
    "relay/a2a/text_folding.py",  # also folds digits, dashes, and spaces
    "relay/a2a/unreadable_text.py",  # finds characters that Unicode does not define
    "relay/detectors/comprehend.py",  # replaces everything above U+FFFF
]


@pytest.mark.parametrize(
    "source",
    [
        r'"\u202e"',
        r'"\N{RIGHT-TO-LEFT OVERRIDE}"',
        "chr(0x202E)",
        '"\u200b"',
        "from unicodedata import category",
    ],
)
def test_a_hidden_character_is_found_however_it_is_written(source):
    assert names_a_hidden_character(source)


def test_no_other_script_or_style_of_the_pages_has_hidden_characters():
    escaped = re.compile(r"\\u\{?([0-9a-f]{4,6})|\\([0-9a-f]{4,6}) ?", re.IGNORECASE)
    files = [one for ending in ("js", "css", "html") for one in SOURCE.rglob(f"*.{ending}")]
    found = {
        path.name
        for path in files
        for text in [path.read_text()]
        for one in (*text, *(chr(int(match[1] or match[2], 16)) for match in escaped.finditer(text)))
        if ord(one) > LAST_CONTROL and is_hidden(one)
    }
    assert found == {"edit.js"}  # compared with the table above
