"""Comprehend through boto3, against a service on loopback that finds real places."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import botocore.session
import pytest

from placet.ports.detector import Rule
from placet.relay.detectors.comprehend import DEFAULT_TIMEOUT, ENTITIES, ComprehendDetector
from placet.relay.policy.evaluation import Outcome
from placet.testing.contracts.detector import DetectorContract, DetectorSample, scan
from tests.relay.detectors.comprehend_service import ComprehendService, run_comprehend_service
from tests.relay.detectors.sample_evaluator import build_evaluator, evaluate_texts
from tests.relay.policies.samples import build_entity_draft, build_policy

CREDENTIALS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "not-a-real-one"}
SSN = Rule(what="SSN", threshold=0.5)


def connect(service: ComprehendService) -> ComprehendDetector:
    return ComprehendDetector(region="eu-central-1", endpoint_url=service.url, client_options=CREDENTIALS)


@pytest.fixture(scope="module")
def shared_detector() -> Iterator[tuple[ComprehendService, ComprehendDetector]]:
    """boto3 takes its time to make a client, so most tests use one."""
    with run_comprehend_service() as service:
        detector = connect(service)
        yield service, detector
        asyncio.run(detector.aclose())


@pytest.fixture
def service(shared_detector: tuple[ComprehendService, ComprehendDetector]) -> ComprehendService:
    service, _ = shared_detector
    service.texts, service.trouble = [], None
    service.released.clear()
    return service


@pytest.fixture
def detector(shared_detector: tuple[ComprehendService, ComprehendDetector]) -> ComprehendDetector:
    _, detector = shared_detector
    detector.within = DEFAULT_TIMEOUT
    return detector


class TestComprehend(DetectorContract):
    @pytest.fixture
    def sample(self) -> DetectorSample:
        return DetectorSample(
            rule=SSN,
            text="my SSN is 536-22-8764",
            found="536-22-8764",
            clean="nothing of note here ",
            wrong=Rule(what="US_SSN"),
        )

    @pytest.fixture
    def detector(
        self, request: pytest.FixtureRequest, detector: ComprehendDetector, service: ComprehendService
    ) -> ComprehendDetector:
        """One of its own for the test that closes it."""
        return connect(service) if "closed" in request.node.name else detector


@pytest.mark.anyio
async def test_all_pieces_and_all_rules_travel_in_one_request(
    detector: ComprehendDetector, service: ComprehendService
):
    rules = [SSN, Rule(what="EMAIL"), Rule(what="ALL"), Rule(what="EMAIL", threshold=0.95)]
    found = await scan(detector, rules, "a@b.example", "", "é 536-22-8764")
    assert len(service.texts) == 1
    places = {(one.rule, one.piece, one.start, one.end, one.entity) for one in found.matches}
    assert places == {
        (0, 2, 2, 13, "SSN"),
        (1, 0, 0, 11, "EMAIL"),
        (2, 0, 0, 11, "EMAIL"),
        (2, 2, 2, 13, "SSN"),
    }


@pytest.mark.anyio
@pytest.mark.parametrize("filler", ["word ", "wörd ", "字 ", "\U0001f600 "])
async def test_long_texts_travel_in_parts_that_the_service_takes_and_nothing_is_lost_at_a_cut(
    detector: ComprehendDetector, service: ComprehendService, filler: str
):
    text = "".join(filler * 40 + f"{place % 900 + 100}-22-8764 " for place in range(600))
    found = await scan(detector, [SSN], text)
    assert not found.unchecked
    assert len(service.texts) > 1
    assert len(found.matches) == 600
    assert all(text[one.start : one.end].endswith("-22-8764") for one in found.matches)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("fails", "COMPREHEND_DETECTION failed (InternalServerException)"),
        ("nonsense", "COMPREHEND_DETECTION failed (KeyError)"),
        ("lies", "COMPREHEND_DETECTION failed (Unavailable)"),
        ("hangs", "COMPREHEND_DETECTION took too long"),
    ],
)
async def test_a_service_in_trouble_holds_the_message(
    detector: ComprehendDetector, service: ComprehendService, trouble: str, reason: str
):
    service.trouble = trouble
    detector.within = timedelta(seconds=5 if trouble != "hangs" else 0.3)
    policies = [build_policy(build_entity_draft("SSN", engine="COMPREHEND", action="LOG"))]
    seen = await evaluate_texts(build_evaluator(policies, detector), "my SSN is 536-22-8764")
    assert (seen.outcome, seen.unchecked[0].reason) == (Outcome.HOLD, reason)
    service.released.set()


@pytest.mark.anyio
async def test_a_service_that_is_not_there_holds_the_message():
    detector = ComprehendDetector(
        region="eu-central-1",
        endpoint_url="http://127.0.0.1:9",
        client_options=CREDENTIALS,
        within=timedelta(seconds=3),
    )
    policies = [build_policy(build_entity_draft("SSN", engine="COMPREHEND"))]
    assert (await evaluate_texts(build_evaluator(policies, detector), "hello")).outcome is Outcome.HOLD
    await detector.aclose()


@pytest.mark.anyio
async def test_a_message_that_would_take_too_many_requests_is_held(
    detector: ComprehendDetector, service: ComprehendService
):
    found = await scan(detector, [SSN], "word " * 1_000_000)
    assert "32 requests" in found.unchecked[0]
    assert service.texts == []


def test_the_entity_types_are_those_of_the_service():
    model = botocore.session.get_session().get_service_model("comprehend")
    assert set(model.shape_for("PiiEntityType").enum) == ENTITIES
