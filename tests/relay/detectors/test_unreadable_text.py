"""Text that has no plain reading is found, and ordinary texts and encodings that are decoded are not."""

import base64
import binascii
import hashlib

import pytest

from placet.ports.detector import Detector, Rule
from placet.relay.detectors.unreadable_text import UnreadableTextDetector
from placet.relay.policy.evaluation import Outcome
from placet.testing.contracts.detector import DetectorContract, DetectorSample
from tests.relay.detectors.sample_evaluator import build_evaluator, evaluate_texts
from tests.relay.policies.samples import build_policy

pytestmark = pytest.mark.anyio
SECRET = b"My number is 536-22-8764, thanks"
FIVE_TIMES = SECRET
for _ in range(7):
    FIVE_TIMES = base64.b64encode(FIVE_TIMES)
UNREADABLE = {
    "Braille": ("⠎⠑⠉⠗⠑⠞", "UNKNOWN_CHARACTERS"),
    "private characters": ("\ue000\ue001", "UNKNOWN_CHARACTERS"),
    "characters that are not assigned": ("\U000e1000\U0001ffff", "UNKNOWN_CHARACTERS"),
    "letters of two scripts": ("sецret", "MIXED_SCRIPTS"),
    "Ascii85": (base64.a85encode(SECRET).decode(), "UNKNOWN_ENCODING"),
    "base85": (base64.b85encode(SECRET).decode(), "UNKNOWN_ENCODING"),
    "uuencode": (binascii.b2a_uu(SECRET).decode().strip(), "UNKNOWN_ENCODING"),
    "reversed base64": (base64.b64encode(SECRET + b"!").decode()[::-1], "UNKNOWN_ENCODING"),
    "encrypted data": (base64.b64encode(hashlib.sha256(SECRET).digest()).decode(), "UNKNOWN_ENCODING"),
    "encrypted data in hex": (hashlib.sha256(SECRET).hexdigest(), "UNKNOWN_ENCODING"),
    "too many encodings": (FIVE_TIMES.decode(), "UNKNOWN_ENCODING"),
}
READABLE = (
    "The fox's über-naïve café visited Zürich on 2024-10-05 14:30 (UTC+02:00), 2026-11-19T20:50:04.123+00:00",
    f"{base64.b64encode(SECRET).decode()} {SECRET.hex()} ５３６-２２ s̶e̶c̶r̶e̶t̶ ѕeсret \\u0035\\u0033",
    "9b2e8a57-1111-4a2a-8c3d-0123456789ab 9b2e8a5711114a2a8c3d0123456789ab",
    "https://example.com/how-to-do-things/with-words?utm_source=news&id=12 /usr/lib/python3.11/site-packages",
    '{"id":12,"name":"Bob","items":[1,2,3],"ok":true} getUserByIdentifierFromTheDatabaseForTests',
    "これはPythonの使い方です。한국어 텍스트 हिन्दी में एक वाक्य. Это русский текст про Python. Δt = 5 µs",
    "hi 👩‍👩‍👧 🇩🇪 ✅ 4111 1111 1111 1111 DE89370400440532013000 +49 (0) 170 1234567",
)


class TestUnreadableText(DetectorContract):
    @pytest.fixture
    def detector(self) -> Detector:
        return UnreadableTextDetector()

    @pytest.fixture
    def sample(self) -> DetectorSample:
        return DetectorSample(
            rule=Rule(),
            text="It says ⠎⠑⠉⠗⠑⠞ here.",
            found="⠎⠑⠉⠗⠑⠞",
            clean="Nothing to see here. ",
            wrong=Rule(what="secret"),
        )


@pytest.mark.parametrize(("text", "kind"), UNREADABLE.values(), ids=UNREADABLE)
async def test_text_without_a_plain_reading_is_held(text: str, kind: str) -> None:
    config = {
        "type": "UNREADABLE_TEXT_DETECTION",
        "enabledLegs": {"requestToSink": True},
        "action": "HUMAN_REVIEW_REQUIRED",
    }
    evaluator = build_evaluator(
        [build_policy({"name": "Ask about unreadable text", "config": config})], UnreadableTextDetector()
    )
    found = await evaluate_texts(evaluator, f"It is {text} indeed")
    assert found.outcome is Outcome.HOLD
    assert {one.entity for one in found.findings} == {kind}
    assert found.findings[0].start == len("It is ")
    assert found.findings[-1].end >= len(f"It is {text}".rstrip("="))
    assert (await evaluate_texts(evaluator, *READABLE)).outcome is Outcome.PASS
