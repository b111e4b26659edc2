"""An agent that requires a signature takes no unsigned, forged or foreign decision."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from placet.agent import Agent, AsyncAgent, Decided, Expired, FollowingTransport, Outcome, PendingCases
from placet.errors import FollowFailed, KeysUnavailable, PlacetError, SignatureRequired
from placet.signing.jws_signer import JwsSigner
from tests.signing.polls import ring, signed_poll

SERVICE = "https://placet.example"
OPENED = {
    "status": "human_input_required",
    "hitl": {
        "spec_version": "0.9",
        "case_id": "case_7Qm",
        "type": "approval",
        "prompt": "Deploy?",
        "review_url": f"{SERVICE}/review/1",
        "poll_url": f"{SERVICE}/poll/1",
    },
}


def signer() -> JwsSigner:
    return JwsSigner(ring("ES256"))


def make_handler(poll: dict[str, Any], keys: httpx.Response | Exception | None) -> httpx.MockTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/poll/1":
            return httpx.Response(200, json=poll)
        if request.url.path == "/.well-known/jwks.json":
            if isinstance(keys, Exception):
                raise keys
            if keys is not None:
                return httpx.Response(keys.status_code, headers=keys.headers, content=keys.content)
            return httpx.Response(200, json=signer().jwks())
        return httpx.Response(202, json=OPENED)

    return httpx.MockTransport(handle)


def follow(transport: httpx.MockTransport, **options: Any) -> Any:
    options = {"streams": False, "require_signature": True, **options}
    with Agent(tell=lambda notice: None, http=httpx.Client(transport=transport), **options) as agent:
        return agent.request("POST", f"{SERVICE}/deploy")


def follow_async(transport: httpx.MockTransport, **options: Any) -> Any:
    async def run() -> Outcome | httpx.Response:
        options_ = {"streams": False, "require_signature": True, **options}
        http = httpx.AsyncClient(transport=transport)
        async with AsyncAgent(tell=lambda notice: None, http=http, **options_) as agent:
            return await agent.request("POST", f"{SERVICE}/deploy")

    return anyio.run(run)


def resume(transport: httpx.MockTransport, cases: PendingCases) -> Outcome | PlacetError:
    """Resume the one pending case with an agent that requires nothing."""
    http = httpx.Client(transport=transport)
    with Agent(tell=lambda notice: None, http=http, streams=False, pending=cases) as agent:
        [(_, outcome)] = agent.resume_all()
        return outcome


AGENTS = pytest.mark.parametrize("drive", [follow, follow_async], ids=["sync", "async"])
Drive = Callable[..., Any]


@AGENTS
def test_valid_signature_is_accepted(drive: Drive) -> None:
    outcome = drive(make_handler(signed_poll(signer()), None))
    assert isinstance(outcome, Decided)
    assert (outcome.verified, outcome.is_affirmative) == (True, True)


def strip(poll: dict[str, Any]) -> None:
    del poll["result"]["signature"]


def null(poll: dict[str, Any]) -> None:
    poll["result"]["signature"] = None


def write_text(poll: dict[str, Any]) -> None:
    poll["result"]["signature"] = "valid"


def change_action(poll: dict[str, Any]) -> None:
    poll["result"]["action"] = "approve " if poll["result"]["action"] == "approve" else "approve"


def change_data(poll: dict[str, Any]) -> None:
    poll["result"]["data"] = {"amount": 1}


def omit_case(poll: dict[str, Any]) -> None:
    del poll["case_id"]


def move_time(poll: dict[str, Any]) -> None:
    poll["completed_at"] = "2026-11-20T10:15:01.123456Z"


def omit_time(poll: dict[str, Any]) -> None:
    del poll["completed_at"]


def use_no_algorithm(poll: dict[str, Any]) -> None:
    poll["result"]["signature"]["algorithm"] = "none"


ALTERATIONS = [
    *(strip, null, write_text, change_action, change_data),
    *(omit_case, move_time, omit_time, use_no_algorithm),
]


@AGENTS
@pytest.mark.parametrize("alter", ALTERATIONS)
def test_missing_or_altered_signature_raises(drive: Drive, alter: Callable[[dict[str, Any]], None]) -> None:
    poll = signed_poll(signer())
    alter(poll)
    with pytest.raises(SignatureRequired):
        drive(make_handler(poll, None))


@AGENTS
def test_signature_of_another_case_raises(drive: Drive) -> None:
    poll = {**signed_poll(signer(), case_id="case_other"), "case_id": "case_7Qm"}
    with pytest.raises(SignatureRequired):
        drive(make_handler(poll, None))


@AGENTS
def test_signer_at_another_origin_is_not_asked_for_its_keys(drive: Drive) -> None:
    forger = JwsSigner(ring("EdDSA"))
    poll = signed_poll(forger)
    poll["result"]["signature"]["signer"] = "https://forger.example/.well-known/jwks.json"
    with pytest.raises(SignatureRequired):
        drive(make_handler(poll, None))


@AGENTS
@pytest.mark.parametrize(
    "keys",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.Response(404),
        httpx.Response(302, headers={"Location": "https://forger.example/keys"}),
        httpx.Response(503),
    ],
    ids=["refused", "timeout", "404", "redirect", "503"],
)
def test_keys_that_cannot_be_fetched_raise_and_the_case_is_kept(
    drive: Drive, keys: httpx.Response | Exception, tmp_path: Any
) -> None:
    cases = PendingCases(tmp_path / "agent.db")
    try:
        with pytest.raises(KeysUnavailable):
            drive(make_handler(signed_poll(signer()), keys), pending=cases)
        (kept,) = cases.list_pending()
        assert kept.is_notified
    finally:
        cases.close()


@AGENTS
def test_a_case_that_required_a_signature_requires_it_of_every_agent_that_resumes_it(
    drive: Drive, tmp_path: Any
) -> None:
    poll = signed_poll(signer())
    cases = PendingCases(tmp_path / "agent.db")
    try:
        with pytest.raises(KeysUnavailable):
            drive(make_handler(poll, httpx.Response(503)), pending=cases)
        assert isinstance(resume(make_handler(poll, httpx.Response(503)), cases), KeysUnavailable)
        outcome = resume(make_handler(poll, None), cases)
        assert isinstance(outcome, Decided)
        assert (outcome.verified, outcome.is_affirmative) == (True, True)
    finally:
        cases.close()


@pytest.mark.parametrize("keys", [b"", b"[]", b"{}", b"<html>", b"\xff", b'{"keys": []}'])
def test_malformed_keys_raise(keys: bytes) -> None:
    with pytest.raises(SignatureRequired):
        follow(make_handler(signed_poll(signer()), httpx.Response(200, content=keys)))


def test_expired_case_has_no_signature_and_is_still_no_yes() -> None:
    poll = {"status": "expired", "case_id": "case_7Qm", "default_action": "approve"}
    assert isinstance(follow(make_handler(poll, None)), Expired)


def test_following_transport_returns_no_success_without_a_signature() -> None:
    poll = signed_poll(signer())
    strip(poll)
    inner = make_handler(poll, None)
    with (
        Agent(
            tell=lambda notice: None,
            http=httpx.Client(transport=inner),
            streams=False,
            require_signature=True,
        ) as agent,
        httpx.Client(transport=FollowingTransport(agent, inner)) as client,
        pytest.raises(FollowFailed),
    ):
        client.post(f"{SERVICE}/deploy")


def test_an_invalid_signature_is_not_affirmative_even_if_none_is_required() -> None:
    poll = json.loads(json.dumps(signed_poll(signer())))
    change_data(poll)
    outcome = follow(make_handler(poll, None), require_signature=False)
    assert (outcome.verified, outcome.is_affirmative, outcome.against) == (False, False, True)
