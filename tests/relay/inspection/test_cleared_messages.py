"""What is let pass after one look at all of a message is what would be let pass after a look at each text."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from placet.ports.detector import Rule, Scannable
from placet.relay.a2a.call import A2ACall, parse_call
from placet.relay.a2a.dialects import REST_1_0, RPC_1_0
from placet.relay.a2a.reply import A2AReply, parse_reply
from placet.relay.detectors.regex import PreparedPatterns, RegexDetector
from placet.relay.policy.text_joining import get_text_group, join_texts

PATTERNS = [
    *(r"\bcat\b", r"\Bcat", r"c.t", r"(?i)CAT", r"[^a]cat", r"cat\s", r"^cat", r"cat$", r"\Acat", r"cat\z"),
    *(r"(?m)^cat$", r"\d{3}-\d\d", r"\b12\b", r"-1\b", r"1\.50?\b", r'"', r":", r"\\", r"é", r"a|b"),
    *(r"[\^]", r"\$", r"c[a-z]{2}\W*d", r"100000", r"\x{263a}", r"[[:alpha:]]{12}", r"catdog", r"\n"),
]
texts = st.text(alphabet='cat dog\\"/é☺\n\t-012.5^$:{}[],', max_size=8) | st.sampled_from(
    ["cat", "cat dog", "123-45", "Y2F0", "catdog", "dog", ""]
)
values = st.recursive(
    texts
    | st.integers(-200, 200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
parts = st.lists(
    st.fixed_dictionaries({"text": texts})
    | st.fixed_dictionaries({"data": values})
    | st.fixed_dictionaries({"raw": texts, "filename": texts}),
    max_size=3,
)
DETECTOR = RegexDetector()
PREPARED: dict[tuple[str, ...], PreparedPatterns] = {}


def prepare_patterns(patterns: tuple[str, ...]) -> PreparedPatterns:
    if patterns not in PREPARED:
        made = DETECTOR.prepare([Rule(what=one) for one in patterns])
        assert isinstance(made, PreparedPatterns)
        PREPARED[patterns] = made
    return PREPARED[patterns]


def is_found_in_full_scan(rules: PreparedPatterns, message: A2ACall | A2AReply) -> bool:
    pieces = message.pieces()
    joined = join_texts(pieces, [get_text_group(one.path) for one in pieces])
    scan = asyncio.run(rules.scan([Scannable(one.path, one.text) for one in joined.scannables]))
    return bool(scan.matches or scan.unchecked)


def is_cleared(rules: PreparedPatterns, message: A2ACall | A2AReply) -> bool:
    plain = message.plain
    cleared = plain is not None and rules.is_clear(plain)
    if cleared:
        assert not message.unreadable_paths()
        assert not is_found_in_full_scan(rules, message)
    return cleared


some_patterns = st.sampled_from(PATTERNS).map(lambda one: (one,)) | st.sampled_from(
    [(r"\bcat\b", r"\d{3}-\d\d"), (r"^cat", "dog")]
)


@given(some_patterns, parts, values, values)
@example((r"\d{3}-\d\d",), [{"text": "123-"}, {"text": "45"}], None, None)
@example((r"100000",), [{"data": {"a": 1e5}}], None, None)
@example((r"^cat",), [{"text": "cat"}], None, None)
def test_quick_check_of_a_call_misses_no_match(
    patterns: tuple[str, ...], parts: list[dict[str, Any]], metadata: Any, beside: Any
) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts, "metadata": metadata}
    params = {"message": message, "metadata": beside}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
    call = parse_call(
        method="POST", path="", query="", version="1.0", content_type="application/json", body=body
    )
    is_cleared(prepare_patterns(patterns), call)


@given(some_patterns, parts, values, texts)
def test_quick_check_of_a_reply_misses_no_match(
    patterns: tuple[str, ...], parts: list[dict[str, Any]], metadata: Any, state: str
) -> None:
    task = {
        "id": "t",
        "status": {"state": state},
        "artifacts": [{"artifactId": state, "parts": parts}],
        "metadata": metadata,
    }
    for dialect, document in ((REST_1_0, {"task": task}), (RPC_1_0, {"id": 1, "result": {"task": task}})):
        is_cleared(prepare_patterns(patterns), parse_reply(dialect, "send", msgspec.json.encode(document)))


@given(texts)
def test_a_plain_message_is_cleared(text: str) -> None:
    assume(not set(text) & set('\\"\n\t') and "cat" not in text and not text.startswith("data:"))
    document = {"id": 1, "result": {"task": {"id": "t", "artifacts": [{"parts": [{"text": text}]}]}}}
    reply = parse_reply(RPC_1_0, "send", msgspec.json.encode(document))
    assert is_cleared(prepare_patterns((r"\bcat\b", r"[^a]cat")), reply)


@pytest.mark.parametrize(
    "beside",
    [{"headers": {"accept": "cat"}}, {"query": "a=cat"}, {"tenant": "cat"}, {"path_task": "cat"}],
)
def test_message_with_text_outside_its_document_is_not_cleared(beside: dict[str, Any]) -> None:
    assert A2ACall(dialect=RPC_1_0, operation="get", document={"params": {}}, **beside).plain is None


def test_deep_and_large_documents_get_a_full_inspection() -> None:
    deep: Any = "x"
    for _ in range(70):
        deep = [deep]
    for data in (deep, "x" * 20_000):
        reply = parse_reply(REST_1_0, "send", msgspec.json.encode({"task": {"metadata": {"a": data}}}))
        assert reply.plain is None
