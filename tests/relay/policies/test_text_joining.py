"""What stands half in one text and half in the next is found, and told where it stands."""

import asyncio
import json
import time
from itertools import permutations

import pytest

from placet.ports.detector import Scannable
from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.reply import parse_reply
from placet.relay.detectors.regex import RegexDetector
from placet.relay.policy.evaluation import Evaluation, Outcome, exempt_approved
from placet.relay.policy.policy import Policy
from placet.relay.policy.text_joining import TextGroupMember, get_text_group, join_texts, split_findings
from tests.relay.detectors.sample_evaluator import WAY, build_evaluator
from tests.relay.policies.samples import build_regex_policy

UUID = "9b2e8a57-1111-4a2a-8c3d-0123456789ab"
SSN = build_regex_policy(r"\d{3}-\d{2}-\d{4}", "MASK", "ssn")


def evaluate_texts(texts: list[str], policies: list[Policy], *, only_joined: bool = False) -> Evaluation:
    pieces = [Scannable(f"message.parts[{place}].text", text) for place, text in enumerate(texts)]
    joined = join_texts(pieces, [TextGroupMember("m", only_joined) for _ in pieces])
    found = asyncio.run(build_evaluator(policies, RegexDetector()).inspect(joined.scannables, **WAY))
    return split_findings(found, joined, pieces)


def mask_texts(texts: list[str], policies: list[Policy], *, only_joined: bool = False) -> list[str]:
    pieces = [Scannable(f"message.parts[{place}].text", text) for place, text in enumerate(texts)]
    found = evaluate_texts(texts, policies, only_joined=only_joined)
    return [piece.text for piece in found.mask(pieces)]


def test_a_match_across_texts_is_masked_in_each_of_them() -> None:
    assert mask_texts(["a 536-", "22", "-8764 z"], [SSN]) == [
        "a [MASKED:REGEX]",
        "[MASKED:REGEX]",
        "[MASKED:REGEX] z",
    ]


def test_match_in_one_text_is_reported_once() -> None:
    found = evaluate_texts(["it is 536-22-8764.", "Thanks"], [SSN])
    [finding] = found.findings
    assert (finding.path, finding.start, finding.end) == ("message.parts[0].text", 6, 17)
    assert finding.text == "536-22-8764"


def test_offsets_are_true_in_every_text_of_a_match() -> None:
    texts = ["é536-2", "2-87", "64🙂"]
    found = evaluate_texts(texts, [SSN])
    assert [texts[one.piece][one.start : one.end] for one in found.findings] == ["536-2", "2-87", "64"]
    assert [one.text for one in found.findings] == ["536-2", "2-87", "64"]


def test_a_continued_text_is_read_as_a_whole_only() -> None:
    cat = build_regex_policy(r"\bcat\b", "BLOCK")
    assert evaluate_texts(["cat", "egory"], [cat], only_joined=True).outcome is Outcome.PASS
    assert evaluate_texts(["cat", "egory"], [cat]).outcome is Outcome.BLOCK


def test_a_match_without_width_masks_all_that_is_read_together() -> None:
    ahead = build_regex_policy(r"(?=secret)", "MASK")
    assert mask_texts(["a sec", "ret b"], [ahead]) == ["[MASKED:REGEX]", "[MASKED:REGEX]"]


def test_long_texts_are_joined_at_their_edges() -> None:
    pieces = [
        Scannable("message.parts[0].text", "a" * 20_000 + " 536-"),
        Scannable("message.parts[1].data.x", "22-8764 " + "b" * 20_000 + " 123-"),
        Scannable("message.parts[2].filename", "45-6789"),
    ]
    joined = join_texts(pieces, [None] * 3)
    assert sum(len(piece.text) for piece in joined.scannables) < 70_000
    found = asyncio.run(build_evaluator([SSN], RegexDetector()).inspect(joined.scannables, **WAY))
    masked = [piece.text for piece in split_findings(found, joined, pieces).mask(pieces)]
    assert masked == [
        "a" * 20_000 + " [MASKED:REGEX]",
        "[MASKED:REGEX] " + "b" * 20_000 + " [MASKED:REGEX]",
        "[MASKED:REGEX]",
    ]


@pytest.mark.parametrize("order", list(permutations(["name", "parts", "metadata"])))
@pytest.mark.parametrize("place", ["artifact", "before", "after"])
def test_quick_check_sees_every_joined_text(order: tuple[str, ...], place: str) -> None:
    members = {
        "name": "a name",
        "parts": [{"text": "a text"}],
        "metadata": {"k": "a note", "n": 5, "no": None},
    }
    artifact = {name: members[name] for name in order if name != "metadata" or place == "artifact"}
    task = {"id": UUID, "contextId": UUID, "status": {"state": "TASK_STATE_COMPLETED"}}
    before, after = ({"metadata": members["metadata"]} if place == one else {} for one in ("before", "after"))
    result = {"task": {**before, **task, "artifacts": [artifact], **after}}
    reply = parse_reply(RPC_1_0, "send", json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())
    pieces = reply.pieces()
    joined = join_texts(pieces, [get_text_group(piece.path) for piece in pieces])
    texts = [one.text for number, one in zip(joined.numbers, joined.scannables, strict=True) if number < 0]
    assert texts
    assert reply.plain is None or all(text.encode() in reply.plain for text in texts)


def test_texts_that_do_not_belong_together_are_not_joined() -> None:
    pieces = [Scannable("a", "536-22"), Scannable("b", "-8764")]
    assert join_texts(pieces, [None, None]).scannables == pieces
    assert join_texts(pieces, [TextGroupMember(1), TextGroupMember(2)]).scannables == pieces


@pytest.mark.parametrize(
    ("path", "of"),
    [
        ("message.parts[0].text", "message"),
        ("message.content[12].text", "message"),
        ("artifacts[3].parts[0].text", "artifacts[3]"),
        ("message.parts[0].filename", None),
        ("message.parts[0].data.text", None),
        ("message.metadata.text", None),
    ],
)
def test_text_parts_are_known_by_their_path(path: str, of: str | None) -> None:
    found = get_text_group(path)
    assert (found.group if found else None) == of


def test_approved_text_is_not_held_again_but_still_masked() -> None:
    hold = build_regex_policy(r"536", "HUMAN_REVIEW_REQUIRED", "hold")
    found = evaluate_texts(["a 536-22-8764"], [SSN, hold])
    assert found.outcome is Outcome.HOLD
    spared = exempt_approved(found, {0}, all_approved=True)
    assert (spared.outcome, [one.action.value for one in spared.findings]) == (Outcome.MASK, ["MASK"])
    assert [one.policy.policy_id for one in spared.clean] == ["hold"]
    assert exempt_approved(found, set(), all_approved=False).outcome is Outcome.HOLD


def test_many_matches_without_width_cost_no_more_than_one() -> None:
    pieces = [Scannable(f"message.parts[{place}].text", "rose ") for place in range(5_000)]
    joined = join_texts(pieces, [TextGroupMember("m", True) for _ in pieces])
    looking = build_evaluator([build_regex_policy(r"(?=rose)", "LOG")], RegexDetector()).inspect(
        joined.scannables, **WAY
    )
    found = asyncio.run(looking)
    assert len(found.findings) == 1_000
    started = time.thread_time()
    told = split_findings(found, joined, pieces)
    assert time.thread_time() - started < 1
    assert {one.piece for one in told.findings} == set(range(5_000))
