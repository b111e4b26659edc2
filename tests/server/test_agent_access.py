"""The profile hitl-agent-access/0.1: prepare, review, commit, with a key that the caller holds."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey
from msgspec.structs import replace

from placet.errors import CaseExpired, InvalidToken, NotPermitted, OperationConflict, ValidationFailed
from placet.http.dpop import LIFETIME, DpopVerifier, hash_token
from placet.protocol.agent_access import (
    TRANSITIONS,
    PreparedOperation,
    build_review_context,
    digest_snapshot,
    prepare_operation,
    require_committable,
    settle_review,
)
from placet.testing.clock import DAYBREAK, FakeClock
from tests.server.running import EXAMPLE, running

SNAPSHOT = {"item": "flight", "total_cents": 12_000, "terms": ["refundable"]}
URL = "https://api.example/bookings/prepare"
KEY = ECKey.generate_key("P-256")


def operation(**changes: Any) -> PreparedOperation:
    made = prepare_operation(
        SNAPSHOT, id="op1", owner="agent-1", expires_at=DAYBREAK + timedelta(hours=1), needs_review=True
    )
    return replace(made, case_id="review_1", **changes)


def commit(made: PreparedOperation, **changes: Any) -> None:
    asked = {"principal": "agent-1", "expected_version": 1, "snapshot_digest": made.snapshot_digest}
    require_committable(made, **{"now": DAYBREAK, **asked, **changes})


def poll(status: str = "completed", action: str = "confirm", case_id: str = "review_1") -> dict[str, Any]:
    return {"status": status, "case_id": case_id, "result": {"action": action, "data": {}}}


@pytest.mark.spec("0.9-agent-access")
def test_only_a_confirmation_makes_an_operation_ready() -> None:
    waiting = operation()
    assert settle_review(waiting, poll()).status == "ready"
    assert settle_review(waiting, poll(action="cancel")).status == "cancelled"
    assert settle_review(waiting, poll(case_id="review_2")).status == "awaiting_approval"
    assert settle_review(waiting, {"status": "expired", "case_id": "review_1"}).status == "expired"
    assert settle_review(waiting, {"status": "cancelled", "case_id": "review_1"}).status == "cancelled"
    assert settle_review(waiting, {"status": "opened", "case_id": "review_1"}) == waiting
    cancelled = waiting.move_to("cancelled")
    assert settle_review(cancelled, poll()) == cancelled


@pytest.mark.spec("0.9-agent-access")
def test_a_commit_names_the_terms_that_were_reviewed() -> None:
    ready = operation(status="ready")
    commit(ready)
    with pytest.raises(NotPermitted):
        commit(ready, principal="agent-2")
    for change in ({"expected_version": 2}, {"snapshot_digest": "0" * 64}):
        with pytest.raises(OperationConflict):
            commit(ready, **change)
    with pytest.raises(CaseExpired):
        commit(ready, now=ready.expires_at)
    for status in TRANSITIONS.keys() - {"ready", "expired"}:
        with pytest.raises(OperationConflict):
            commit(operation(status=status))
    with pytest.raises(OperationConflict):
        operation(status="succeeded").move_to("ready")


def test_a_snapshot_has_one_digest_and_no_fractions() -> None:
    assert digest_snapshot({"b": 1, "a": 2}) == digest_snapshot({"a": 2, "b": 1})
    deep: Any = {}
    for _ in range(40):
        deep = {"deeper": deep}
    for bad in ({"total": 1.5}, {"list": [{"total": 0.1}]}, deep, {"huge": 2**60}, {"odd": "\ud83d"}):
        with pytest.raises(ValidationFailed):
            digest_snapshot(bad)


@pytest.mark.spec("0.9-agent-access")
def test_the_review_of_an_operation_keeps_the_rules_of_the_profile(tmp_path: Any) -> None:
    need = {"any_of": [{"all_of": [{"proof_type": "x-passkey"}]}]}
    binding = {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True}
    policy = {
        "mode": "required",
        "required_for": ["browser_submit"],
        "requirements": need,
        "binding": binding,
        "fallback": {"on_missing": "reject", "on_invalid": "reject"},
    }
    context = build_review_context(operation())
    good = {**EXAMPLE, "context": context, "verification_policy": policy, "default_action": "abort"}
    changed = {**context, "snapshot": {**SNAPSHOT, "total_cents": 1}}
    loose = {**context, "x-hitl-agent-access": {**context["x-hitl-agent-access"], "profile": "other"}}
    with (
        running(tmp_path, base_url="http://localhost:{port}") as server,
        server.client(server.api_key) as client,
    ):
        assert client.post("/v1/cases", json=good).status_code == 202
        for bad in (
            {"context": changed},
            {"context": loose},
            {"context": {"x-hitl-agent-access": "yes"}},
            {"verification_policy": {**policy, "mode": "optional"}},
            {"default_action": "skip"},
            {"inline_actions": ["confirm"]},
            {"type": "escalation", "context": {**context, "error": {"title": "x"}}},
        ):
            assert client.post("/v1/cases", json={**good, **bad}).status_code == 400, bad


def make_proof(key: Any = KEY, *, clock: Callable[[], datetime], **changes: Any) -> str:
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": KEY.as_dict(private=False)}
    claims: dict[str, Any] = {"jti": "one", "htm": "POST", "htu": URL, "ath": hash_token("secret")}
    claims |= {"iat": int(clock().timestamp())}
    header |= {name: changes.pop(name) for name in ("typ", "alg", "jwk") if name in changes}
    payload = json.dumps({**claims, **changes})
    registry = jws.JWSRegistry(algorithms=["ES256", "RS256", "HS256"], strict_check_header=False)
    return jws.serialize_compact(header, payload, key, registry=registry)


@pytest.mark.spec("0.9-agent-access", "0.8-agent-binding")
def test_a_proof_of_possession_holds_for_one_request_with_one_key() -> None:
    clock = FakeClock()
    verifier = DpopVerifier(clock)

    def check(proof: str, *, url: str = URL, method: str = "POST", token: str = "secret") -> None:
        verifier.verify(proof, method=method, url=url, access_token=token, thumbprint=KEY.thumbprint())

    check(make_proof(clock=clock), url=f"{URL}?page=2")
    other, rsa = ECKey.generate_key("P-256"), RSAKey.generate_key(2048)
    now = int(clock().timestamp())
    for proof in (
        make_proof(clock=clock),  # used before
        make_proof(other, clock=clock, jti="2"),
        make_proof(other, clock=clock, jti="3", jwk=other.as_dict(private=False)),
        make_proof(clock=clock, jti="4", jwk=KEY.as_dict(private=True)),
        make_proof(rsa, clock=clock, jti="5", alg="RS256", jwk=rsa.as_dict(private=False)),
        make_proof(clock=clock, jti="6", typ="jwt"),
        make_proof(clock=clock, jti="7", htm="GET"),
        make_proof(clock=clock, jti="8", htu="https://evil.example/bookings/prepare"),
        make_proof(clock=clock, jti="9", ath=hash_token("another")),
        make_proof(clock=clock, jti="10", iat=now - int(LIFETIME.total_seconds())),
        make_proof(clock=clock, jti="11", iat=now + 31),
        make_proof(clock=clock, jti=""),
        make_proof(clock=clock, jti="12", iat="now"),
        "",
        "a.b.c",
        "x" * 10_000,
        "ünïcode",
    ):
        with pytest.raises(InvalidToken):
            check(proof)
    clock.advance(LIFETIME)
    check(make_proof(clock=clock, jti="13"))
    assert clock().tzinfo is UTC
