import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import import_key
from msgspec.structs import replace

from placet.errors import SettingsError, SignatureInvalid
from placet.ports.signer import Signer
from placet.protocol.poll import PollResponse, Result, Signature
from placet.protocol.signed_result import build_signing_payload, format_wire_time, parse_signature
from placet.signing.algorithms import ALGORITHMS
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing
from placet.signing.verify import VerifiedResult, verify_result
from tests.signing.polls import SIGNER, base64url, ring, signed_poll
from tests.signing.samples import DATA, JSON, LATER, MOMENT, NOW, SHOWN

ES256 = JwsSigner(ring("ES256"))
Path = tuple[str, ...]


def changed(poll: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(poll))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return copy


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signed_result_verifies_and_says_what_it_proves(algorithm: str):
    signer: Signer = JwsSigner(ring(algorithm))
    assert verify_result(
        signed_poll(JwsSigner(ring(algorithm))), signer.jwks(), shown=SHOWN
    ) == VerifiedResult(
        case_id="case_7Qm",
        action="approve",
        kid=ring(algorithm).current.kid,
        algorithm=algorithm,
        shown=SHOWN,
        signed_at=MOMENT,
    )


@given(data=st.dictionaries(st.text(), JSON, max_size=4), action=st.text(), case_id=st.text())
def test_any_json_verifies_after_its_journey(data: Any, action: str, case_id: str):
    verified = verify_result(signed_poll(ES256, data, action=action, case_id=case_id), ES256.jwks())
    assert (verified.action, verified.case_id) == (action, case_id)


@given(
    signed=st.dictionaries(st.text(max_size=2), JSON, max_size=2),
    read=st.dictionaries(st.text(max_size=2), JSON, max_size=2),
)
def test_other_data_never_verifies(signed: Any, read: Any):
    poll = changed(signed_poll(ES256, signed), ("result", "data"), read)
    fields: dict[str, Any] = {"case_id": "c", "action": "a", "shown": SHOWN, "completed_at": MOMENT}
    if build_signing_payload(data=signed, **fields) == build_signing_payload(data=read, **fields):
        assert verify_result(poll, ES256.jwks()).shown == SHOWN
    else:
        with pytest.raises(SignatureInvalid, match="does not match"):
            verify_result(poll, ES256.jwks())


def test_data_as_large_as_a_body_may_be_verifies():
    poll = signed_poll(ES256, {"text": "x" * 1_048_576})
    assert verify_result(poll, ES256.jwks()).action == "approve"


def test_a_poll_response_as_the_server_writes_it_verifies():
    payload = build_signing_payload(
        case_id="c", shown=SHOWN, action="edit", data=DATA, completed_at=format_wire_time(NOW)
    )
    signature = Signature(
        algorithm="ES256", value=ES256.sign(payload, shown=SHOWN), signed_at=NOW, signer=SIGNER
    )
    result = Result(action="edit", data=DATA, signature=signature)
    poll = PollResponse(status="completed", case_id="c", created_at=NOW, completed_at=NOW, result=result)
    assert verify_result(json.loads(msgspec.json.encode(poll)), ES256.jwks()).action == "edit"


def test_result_without_data_verifies_as_one_with_empty_data():
    poll = signed_poll(ES256, {})
    del poll["result"]["data"]
    assert verify_result(poll, ES256.jwks()).action == "approve"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("case_id",), "case_7Qn"),
        (("case_id",), "case_7Qm "),
        (("completed_at",), "2026-11-20T10:15:00.123457Z"),
        (("completed_at",), "2026-11-20T10:15:00.123456+00:00"),
        (("result", "action"), "reject"),
        (("result", "action"), "Approve"),
        (("result", "data"), {}),
        (("result", "data"), None),
        (("result", "data", "comment"), "Fïne by me"),
        (("result", "data", "comment"), "Fi\u0308ne by me 👍"),
        (("result", "data", "amount"), 12.500000000000002),
        (("result", "data", "amount"), "12.5"),
        (("result", "data", "items"), []),
        (("result", "data", "items"), [{"id": "a", "kept": 1}]),
        (("result", "data", "more"), None),
        (("result", "signature", "signed_at"), "2026-11-20T10:15:01Z"),
        (("result", "signature", "algorithm"), "RS256"),
    ],
)
def test_one_altered_field_is_refused(path: Path, value: Any):
    with pytest.raises(SignatureInvalid):
        verify_result(changed(signed_poll(ES256), path, value), ES256.jwks())


def test_moving_both_times_together_is_refused():
    moved = changed(signed_poll(ES256), ("completed_at",), "2026-11-20T11:15:00Z")
    moved = changed(moved, ("result", "signature", "signed_at"), "2026-11-20T11:15:00Z")
    with pytest.raises(SignatureInvalid, match="does not match"):
        verify_result(moved, ES256.jwks())


def test_a_signature_cannot_be_moved_to_another_case():
    mine, other = signed_poll(ES256), signed_poll(ES256, case_id="case_other")
    mine["result"]["signature"] = other["result"]["signature"]
    with pytest.raises(SignatureInvalid, match="does not match"):
        verify_result(mine, ES256.jwks())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_character_of_the_value_can_be_changed(algorithm: str):
    signer = JwsSigner(ring(algorithm))
    poll = signed_poll(signer)
    value = poll["result"]["signature"]["value"]
    for place in range(0, len(value), 7 if algorithm == "RS256" else 3):
        other = value[:place] + ("A" if value[place] != "A" else "B") + value[place + 1 :]
        with pytest.raises(SignatureInvalid):
            verify_result(changed(poll, ("result", "signature", "value"), other), signer.jwks())


def test_an_offer_that_was_not_shown_is_refused():
    with pytest.raises(SignatureInvalid, match="not what the person was shown"):
        verify_result(signed_poll(ES256), ES256.jwks(), shown="00" * 32)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_put_together_with_its_payload_it_is_a_plain_jws(algorithm: str):
    signer = JwsSigner(ring(algorithm))
    payload = build_signing_payload(
        case_id="c", shown=SHOWN, action="approve", data=DATA, completed_at=MOMENT
    )
    whole = signer.sign(payload, shown=SHOWN).replace("..", f".{base64url(payload)}.")
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    key = import_key(signer.jwks()["keys"][0])
    if algorithm == "EdDSA":
        with pytest.warns(match="RFC 9864"):
            read = jws.deserialize_compact(whole, key, registry=registry)
    else:
        read = jws.deserialize_compact(whole, key, registry=registry)
    assert read.payload == payload
    assert read.headers() == {
        "alg": algorithm,
        "kid": signer.jwks()["keys"][0]["kid"],
        "shown": SHOWN,
        "typ": "hitl-result+jws",
    }


def test_results_from_before_a_rotation_still_verify():
    first = ring("ES256")
    second = first.rotate(now=LATER, algorithm="EdDSA")
    third = second.rotate(now=LATER, algorithm="RS256")
    polls = [signed_poll(JwsSigner(each)) for each in (first, second, third)]
    jwks = JwsSigner(third).jwks()
    assert [verify_result(poll, jwks).algorithm for poll in polls] == ["ES256", "EdDSA", "RS256"]
    assert [key["alg"] for key in jwks["keys"]] == ["RS256", "EdDSA", "ES256"]


def test_a_key_not_yet_published_is_unknown():
    rotated = JwsSigner(ring("ES256").rotate(now=LATER))
    with pytest.raises(SignatureInvalid, match="exactly one key with this kid"):
        verify_result(signed_poll(rotated), ES256.jwks())


def test_two_signers_of_one_ring_agree_on_the_key_set():
    assert JwsSigner(ring("RS256")).jwks() == JwsSigner(ring("RS256")).jwks()


def test_changing_the_key_set_one_was_given_changes_nothing():
    ES256.jwks()["keys"][0]["kid"] = "changed"
    assert ES256.jwks()["keys"][0]["kid"] == ring("ES256").current.kid


def test_a_signer_refuses_a_ring_whose_key_cannot_sign():
    current = ring("ES256").current
    with pytest.raises(SettingsError, match="no private half"):
        JwsSigner(KeyRing(current=replace(current, jwk=current.retire(now=LATER).jwk)))


def test_the_four_fields_of_a_signature_are_read():
    signature = parse_signature(signed_poll(ES256)["result"]["signature"])
    assert (signature.signed_at, signature.signer, signature.header.shown) == (MOMENT, SIGNER, SHOWN)
