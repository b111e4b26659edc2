"""The window of a stream: what may leave, whatever the text and however the agent splits it."""

import asyncio
import base64
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.ports.detector import Scannable
from placet.relay.detectors.open_match import OpenMatchFinder, build_finder
from placet.relay.detectors.pattern_width import compute_pattern_width
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.stream_window import EventText, StreamEvent, StreamWindow
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding, mask_text
from placet.relay.policy.policy import Leg
from placet.relay.policy.policy_set import PolicySet
from tests.relay.policies.samples import NOW, build_regex_policy

SSN = r"\b\d{3}-\d{2}-\d{4}\b"
PATTERNS = (SSN, r"SECRET", r"(?i)key\s?=\s?[a-f]{4,8}", r"(?<!\d)\d{4}(?!\d)", r"ﬁnal|a\.b")
NUMBER = "536-22-8764"


def build_evaluator(patterns: Sequence[str], action: str) -> PolicyEvaluator:
    policies = [build_regex_policy(pattern, action, f"p{number}") for number, pattern in enumerate(patterns)]
    return PolicyEvaluator(PolicySet.for_everyone(policies, now=NOW), DetectorRegistry([RegexDetector()]))


def inspect(evaluator: PolicyEvaluator, texts: Sequence[Scannable]) -> Evaluation:
    return asyncio.run(
        evaluator.inspect(texts, source="app", sink="agent", leg=Leg.RESPONSE_TO_SOURCE, at=NOW)
    )


def find(evaluator: PolicyEvaluator, text: str) -> Sequence[Finding]:
    return inspect(evaluator, [Scannable("", text)]).findings


def find_openings(patterns: Sequence[str]) -> OpenMatchFinder:
    widths = [(pattern, compute_pattern_width(pattern)) for pattern in patterns]
    return build_finder((pattern, width) for pattern, width in widths if width is not None)


def chunk(text: str, key: str = "a") -> StreamEvent:
    return StreamEvent([EventText(text, (key,), is_complete=False)], frozenset({key}))


class Stream:
    """Events that go through a window."""

    def __init__(self, patterns: Sequence[str] = (SSN,), action: str = "HUMAN_REVIEW_REQUIRED") -> None:
        self.evaluator = build_evaluator(patterns, action)
        self.finder = find_openings(patterns)
        self.window = StreamWindow()
        self.texts: list[str] = []
        self.left: list[str] = []
        self.numbers: list[int] = []

    def add(self, *events: StreamEvent) -> list[str]:
        """Add the events of one read. Return the texts that leave because of them."""
        for event in events:
            self.window.add(event)
            self.texts.append("".join(text.text for text in event.texts))
        texts = self.window.list_texts()
        findings = inspect(self.evaluator, texts).findings if texts else ()
        step = self.window.advance(findings, self.finder)
        left = [mask_text(self.texts[one.number], [*one.findings.get(0, ())]) for one in step.released]
        self.left += left
        self.numbers += [one.number for one in step.released]
        return left


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPACED = " ".join(NUMBER)
CODES = (
    " ".join(f"{ord(sign):x}" for sign in NUMBER),
    " ".join(str(ord(sign)) for sign in NUMBER),
    " ".join(f"{ord(sign):08b}" for sign in NUMBER),
    " ".join(encode(f"a {NUMBER} b")[start : start + 4] for start in range(0, 20, 4)),
    "\n".join(encode(f"It is {NUMBER}.")[start : start + 6] for start in range(0, 24, 6)),
    base64.b32encode(NUMBER.encode()).decode(),
)
FRAGMENTS = (
    *("Hello, ", "the ", "word ", "\n", " ", "é", "e\u0301", "한", "# Title\n", "**bold** "),
    *("— ", "…", "5", "53", "6-22", "-", "8764", NUMBER, "SEC", "RET", "\u200b", "\u0301", "\ufb01nal"),
    *("5\ufe0f\u20e3", "\uff15", "\uff13\uff16", "\uff0d", "\u2013", "&#53;", "\\u0035", "%35", "%", "&#"),
    *(encode(f"a {NUMBER} in a box"), "KEY", " = ", "abcdef", "12", "34", ".", "a", "b", encode("SECRET")),
    *(
        encode("x" * 30 + " SECRET"),
        "=",
        "==",
        "\\",
        "<b>",
        "</b>",
        "<i",
        ">",
        "<!-- ",
        " -->",
        "&lt;a ",
        "&gt;",
    ),
    *(
        "536 - ",
        "22 -\n",
        SPACED,
        SPACED[:9],
        *CODES,
        "\\N{DIGIT ",
        "FIVE}",
        "0x",
        "NTM2",
        "LTIy",
        "Lnt",
        "`",
    ),
    *(
        "\x1b[1m",
        "\x1b]8;;a b",
        "\x07",
        "\b",
        "^H",
        "\u202e",
        "4678-",
        "\u202c",
        "&#x202e;",
        '<bdo dir="rtl">',
    ),
    *(
        "五三六",
        "-二二",
        "ef bc 95 ",
        "<![CDATA[",
        "]]>",
        "<?php ",
        "?>",
        "{",
        "}",
        "\\text{",
        '" + "',
        "chr(53)+",
    ),
    *(
        "\\35 ",
        "\\65",
        "%u0035",
        "xn--ecret-g2e",
        "--",
        "[b]",
        "З",
        "ⲥ",
        ">\n> ",
        "\\\n",
        "SEC-\n",
        "S-E-C-R-E-T",
    ),
    *("quite some more words follow here, which mean nothing. ", "Иван ", "с", "你好，", "世界。"),
)
texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3)), max_size=12).map("".join)


LONG = "An agent may send a whole page of words in one event, and go on with a few more words. " * 12


@st.composite
def split_texts(draw: st.DrawFn) -> list[str]:
    """A text in chunks of any size, within words, marks and escapes."""
    text = draw(texts.filter(bool))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=20))
    ends = sorted({*cuts, len(text)} - {0})
    chunks = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [*draw(st.sampled_from(([], [LONG]))), *chunks]


@pytest.mark.parametrize("patterns", [(SSN,), PATTERNS], ids=["one", "several"])
def test_no_part_of_a_match_leaves_however_the_text_is_split(patterns: tuple[str, ...], full: bool) -> None:
    @settings(max_examples=1500 if full else 300, deadline=None)
    @given(chunks=split_texts())
    def check(chunks: list[str]) -> None:
        stream = Stream(patterns)
        for one in chunks:
            stream.add(chunk(one))
        whole = "".join(chunks)
        released = "".join(stream.left)
        assert whole.startswith(released)
        first = min((one.start for one in find(stream.evaluator, whole)), default=len(whole))
        assert len(released) <= first

    check()


EVASIONS = (
    *(NUMBER, SPACED, *CODES, "536-<b class=some words>22</b>-8764", "5<!-- some words here -->36-22-8764"),
    *(
        "\\N{DIGIT FIVE}36-22-8764",
        "&#53;36-22-8764",
        "536 - 22 - 8764",
        "536-22-\n8764",
        "5\u200b36-22-8764",
    ),
    *(
        "536-\x1b]8;;some long words here\x0722\x1b]8;;\x07-8764",
        "see ef bc 95 33 36 2d 32 32 2d 38 37 36 34",
    ),
    *(f"536-<b title='{'some words ' * 40}'>22</b>-8764", '"my number 536-" + "22-8764"', "537\b6-22-8764"),
    *(
        "&#x202e;4678-22-635 words",
        '<bdo dir="rtl"> sdrow 4678-22-635</bdo>',
        f"536-<!--{'words ' * 90}-->22-8764",
    ),
    *(encode(f"yes {NUMBER}"), " the ".join(encode(f"SSN {NUMBER}")[start : start + 8] for start in (0, 8))),
)


@pytest.mark.parametrize("before", ["", LONG, "x " * 400], ids=["alone", "after a page", "after letters"])
@pytest.mark.parametrize("size", [1, 4, 9])
@pytest.mark.parametrize("evasion", EVASIONS)
def test_no_part_of_an_evasion_leaves(evasion: str, size: int, before: str) -> None:
    whole = f"My words, dear friends: see the {evasion} and then many more words until the story ends. "
    stream = Stream()
    if before:
        stream.add(chunk(before))
    for start in range(0, len(whole), size):
        stream.add(chunk(whole[start : start + size]))
    whole = before + whole
    first = min((one.start for one in find(stream.evaluator, whole)), default=len(whole))
    assert len("".join(stream.left)) <= first


def test_masked_text_that_leaves_contains_no_match(full: bool) -> None:
    @settings(max_examples=1500 if full else 300, deadline=None)
    @given(chunks=split_texts())
    def check(chunks: list[str]) -> None:
        stream = Stream(PATTERNS, "MASK")
        for one in chunks:
            stream.add(chunk(one))
        whole = "".join(chunks)
        count = len("".join(chunks[: len(stream.left)]))
        findings = find(stream.evaluator, whole)
        begin = 0
        for left, one in zip(stream.left, chunks, strict=False):
            if any(found.start < begin + len(one) and begin < found.end for found in findings):
                assert "MASKED" in left
            begin += len(one)
        if not findings:
            assert "".join(stream.left) == whole[:count]

    check()


PROSE = "The quick brown fox jumps over the lazy dog and then goes home to sleep until it wakes up again "
CODE = "<?php\n$x = add($small, 5); if ($x < 10) { echo 'small number'; } function foo($a) { return $a; } "


@pytest.mark.parametrize(
    ("words", "lag"),
    [
        (re.findall(r"\S+\s+", PROSE), 2),
        (re.findall(r"\S+\s+", PROSE.replace(" ", "\n")), 2),
        (re.findall(r"\S+\s+", PROSE.replace(" ", ", ")), 2),
        (re.findall(r"\s*\S+", PROSE), 3),
        (re.findall(r"\S+\s+", CODE), 7),
    ],
    ids=["words", "lines", "commas", "leading spaces", "code"],
)
def test_ordinary_text_leaves_within_a_few_words(words: list[str], lag: int) -> None:
    stream = Stream()
    lags = []
    for number, word in enumerate(words, 1):
        stream.add(chunk(word))
        lags.append(number - len(stream.left))
    assert max(lags) <= lag
    assert "".join(stream.left) == "".join(words[: len(stream.left)])


def test_words_before_a_pause_leave_at_once() -> None:
    stream = Stream()
    for word in ("Let ", "me ", "look ", "that ", "up. "):
        stream.add(chunk(word))
    assert "".join(stream.left) == "Let me look that up. "


def test_text_of_any_length_stays_cheap() -> None:
    stream = Stream()
    for _ in range(400):
        stream.add(chunk("Some words — and “more” words. "))
        assert sum(len(one.text) for one in stream.window.list_texts()) == 0
        assert max(len(joined.text) for joined in stream.window._joined.values()) < 1000
    assert len(stream.left) > 390


def test_text_without_a_cut_is_not_inspected_again_and_again() -> None:
    stream = Stream()
    inspections = 0
    for one in ["\u202e", *["word "] * 3_000]:
        stream.window.add(chunk(one))
        texts = stream.window.list_texts()
        inspections += len(texts)
        stream.window.advance(inspect(stream.evaluator, texts).findings if texts else (), stream.finder)
    assert inspections < 300


def test_id_is_inspected_once() -> None:
    stream = Stream()
    event = StreamEvent([EventText("task-1", can_be_masked=False)], frozenset({"a"}))
    stream.add(event)
    stream.window.add(event)
    assert stream.window.list_texts() == []


def test_match_over_a_boundary_stops_the_event() -> None:
    stream = Stream(action="MASK")
    inside = StreamEvent([EventText(f"{NUMBER} x", can_be_masked=False, boundary=12)], frozenset({"a"}))
    assert stream.add(inside) == [f"{NUMBER} x"]
    over = StreamEvent([EventText(NUMBER, can_be_masked=False, boundary=4)], frozenset({"a"}))
    assert stream.add(over) == []
    assert stream.window.is_frozen


def test_a_match_freezes_the_stream() -> None:
    stream = Stream()
    assert stream.add(chunk("One moment, please. I look it up. Now: "))
    assert stream.add(chunk("the number in my list of friends is 536-22-")) == []
    assert stream.add(chunk("8764, and that is all that I know about it.")) == []
    assert stream.add(chunk("Nothing more leaves. " * 10)) == []
    assert stream.window.is_frozen


def test_a_blocked_stream_says_so() -> None:
    stream = Stream(action="BLOCK")
    stream.window.add(chunk(f"It is {NUMBER}, and that is all that I know about it."))
    found = inspect(stream.evaluator, stream.window.list_texts()).findings
    assert stream.window.advance(found, stream.finder).is_blocked


def test_masked_stream_goes_on() -> None:
    stream = Stream(action="MASK")
    stream.add(
        chunk("It is 536-2"), chunk("2-8764, and that "), chunk("is all that I know, "), chunk("sorry. ")
    )
    stream.add(chunk("Goodbye, and until another time. "))
    assert "".join(stream.left) == (
        "It is [MASKED:REGEX][MASKED:REGEX], and that is all that I know, sorry. "
    )


def test_text_of_its_own_leaves_at_once() -> None:
    stream = Stream()
    assert stream.add(StreamEvent([EventText("536-22-")])) == ["536-22-"]


def test_a_status_message_does_not_hold_up_an_artifact() -> None:
    stream = Stream()
    said = StreamEvent([EventText("Searching", ("status",))], frozenset({"status"}))
    answer = chunk("Here is what I found out about it: ")
    assert stream.add(said) == []
    assert stream.add(answer, chunk("nothing at all, dear friends. ")) == [answer.texts[0].text]
    later = StreamEvent([EventText(" and still searching for more", ("status",))], frozenset({"status"}))
    assert stream.add(later) == ["Searching"]


def test_event_of_all_lanes_keeps_its_place() -> None:
    stream = Stream()
    stream.add(chunk("Hello "))
    assert stream.add(StreamEvent([]), StreamEvent([], frozenset({"b"}))) == []
    stream.add(chunk("and good morning to you all, dear friends"))
    assert stream.numbers == [0, 1, 2]


def test_match_over_several_texts_of_the_stream_is_found() -> None:
    stream = Stream()
    said = StreamEvent([EventText("Nothing but words: 536-", ("status", "all"))], frozenset({"status"}))
    written = [EventText("22-8764 and many more words, until the end of the day. ", ("a", "all"))]
    assert stream.add(said, StreamEvent(written, frozenset({"a"}))) == []
    assert stream.window.is_frozen


def test_numbers_are_not_one_long_number() -> None:
    stream = Stream([r"\d{4}"])
    numbers = [EventText("12", ("all",), is_number=True), EventText("34", ("all",), is_number=True)]
    stream.add(StreamEvent(numbers, frozenset({"a"})))
    assert stream.add(StreamEvent([EventText(" many words follow the numbers ", ("all",))], frozenset({"a"})))


def test_outcome_of_a_clean_text_is_pass() -> None:
    assert inspect(Stream().evaluator, [Scannable("", "Hello")]).outcome is Outcome.PASS
