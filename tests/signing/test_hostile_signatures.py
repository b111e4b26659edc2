import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from placet.errors import SignatureInvalid
from placet.protocol.signed_result import build_signing_payload
from placet.signing.algorithms import ALGORITHMS
from placet.signing.jws_signer import JwsSigner
from placet.signing.verify import verify_result
from tests.signing.polls import base64url, header_of, ring, signed_poll
from tests.signing.samples import DATA, JSON, MOMENT, SHOWN

ES256 = JwsSigner(ring("ES256"))
PAYLOAD = build_signing_payload(
    case_id="case_7Qm", shown=SHOWN, action="approve", data=DATA, completed_at=MOMENT
)
HEADER = header_of(signed_poll(ES256)["result"]["signature"]["value"])
ANYTHING = JSON | st.binary() | st.dictionaries(st.text() | st.integers(), JSON)


def with_value(value: Any, **fields: Any) -> dict[str, Any]:
    poll = signed_poll(ES256)
    poll["result"]["signature"] |= {"value": value, **fields}
    return poll


def value_of(header: Any, signature: bytes) -> str:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return f"{base64url(text)}..{base64url(signature)}"


def signed_with_header(header: dict[str, Any]) -> str:
    """The server's own key under a header that the server would never write."""
    message = base64url(json.dumps(header).encode()) + "." + base64url(PAYLOAD)
    key = ring("ES256").current.read().private_key
    return value_of(header, ALGORITHMS["ES256"].sign(key, message.encode()))


def refused(poll: Any, jwks: Any = None, match: str = ".") -> None:
    with pytest.raises(SignatureInvalid, match=match):
        verify_result(poll, ES256.jwks() if jwks is None else jwks)


def test_the_forging_tool_of_these_tests_makes_signatures_that_hold():
    assert verify_result(with_value(signed_with_header(HEADER)), ES256.jwks()).shown == SHOWN


@pytest.mark.parametrize(
    "alg", ["none", "None", "nOnE", "", "HS256", "HS512", "PS256", "ES384", "ES256K", "Ed25519"]
)
def test_algorithms_off_the_list_are_refused(alg: str):
    refused(
        with_value(value_of({**HEADER, "alg": alg}, b"x"), algorithm=alg), match="algorithm must be one of"
    )


def test_no_signature_after_the_dots_is_refused():
    refused(
        with_value(f"{base64url(json.dumps({**HEADER, 'alg': 'none'}).encode())}.."), match="detached JWS"
    )


def public_texts() -> dict[str, bytes]:
    """The ways an attacker may write a public key down to use it as an HMAC secret."""
    published = JwsSigner(ring("RS256")).jwks()["keys"][0]
    key = RSAKey.import_key(published)
    return {"pem": key.as_pem(), "der": key.as_der(), "jwk": json.dumps(published).encode()}


@pytest.mark.parametrize("claimed", ["HS256", "RS256"])
@pytest.mark.parametrize("form", ["pem", "der", "jwk"])
def test_a_public_key_is_no_hmac_secret(form: str, claimed: str):
    signer = JwsSigner(ring("RS256"))
    header = {**HEADER, "alg": claimed, "kid": ring("RS256").current.kid}
    message = base64url(json.dumps(header).encode()) + "." + base64url(PAYLOAD)
    forged = value_of(header, hmac.digest(public_texts()[form], message.encode(), hashlib.sha256))
    refused(with_value(forged, algorithm=claimed), signer.jwks())


@pytest.mark.parametrize("alg", ["HS256", "ES256"])
def test_a_symmetric_key_in_the_key_set_verifies_nothing(alg: str):
    secret = OctKey.generate_key(256, {"kid": "shared", "alg": "HS256"})
    header = {**HEADER, "alg": "HS256", "kid": "shared"}
    whole = jws.serialize_compact(
        header, PAYLOAD, secret, registry=jws.JWSRegistry(algorithms=["HS256"], strict_check_header=False)
    )
    named = {**header, "alg": alg}
    forged = value_of(named, whole.rpartition(".")[2].encode())
    refused(with_value(forged, algorithm=alg), {"keys": [secret.as_dict(private=True)]})


@pytest.mark.parametrize(
    "extra",
    [
        {"crit": ["shown"]},
        {"crit": []},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"b64": True},
        {"jwk": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}},
        {"jku": "https://evil.example/jwks.json"},
        {"x5u": "https://evil.example/cert.pem"},
        {"exp": 1},
    ],
)
def test_headers_with_more_than_our_members_are_refused_even_if_signed(extra: dict[str, Any]):
    refused(with_value(signed_with_header({**HEADER, **extra})), match="exactly alg, kid, shown and typ")


@pytest.mark.parametrize("typ", ["JWT", "jws", "HITL-RESULT+JWS", "application/hitl-result+jws", None, 3])
def test_a_token_of_another_kind_is_refused(typ: Any):
    refused(with_value(signed_with_header({**HEADER, "typ": typ})), match="hitl-result\\+jws")


@pytest.mark.parametrize("missing", ["alg", "kid", "shown", "typ"])
def test_headers_with_less_than_our_members_are_refused(missing: str):
    refused(with_value(signed_with_header({k: v for k, v in HEADER.items() if k != missing})))


@pytest.mark.parametrize("shown", ["", "5E" * 32, "5e" * 33, "../../etc/passwd"])
def test_a_header_without_a_digest_is_refused(shown: str):
    refused(with_value(signed_with_header({**HEADER, "shown": shown})), match="digest of what was shown")


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"[]", b"null", b"3", b'"text"', b"\xff\xfe", b'{"alg":"\\ud800"}', b"[" * 300, b"{}"],
)
def test_malformed_headers_are_refused(header: bytes):
    refused(with_value(value_of(header, b"x" * 64)))


def test_a_header_of_two_algorithms_is_refused():
    twice = json.dumps(HEADER).replace('"alg": "ES256"', '"alg": "ES256", "alg": "none"').encode()
    refused(with_value(value_of(twice, b"x" * 64)), match="algorithm must be one of")


@pytest.mark.parametrize(
    "value",
    [
        None, 3, "", ".", "..", "...", "a..b..c", "a.b.c", "a..b.", ".a..b", "a..b\n", "a ..b", "ä..ö",
        "a=..b=", "a" * 513 + "..b", "a.." + "b" * 1025, "a" * 1_000_000,
    ],
)  # fmt: skip
def test_values_that_are_no_detached_jws_are_refused(value: Any):
    refused(with_value(value))


def test_a_payload_inside_the_value_is_refused():
    whole = signed_with_header(HEADER).replace("..", f".{base64url(PAYLOAD)}.")
    refused(with_value(whole), match="detached")


@pytest.mark.parametrize("size", [0, 1, 63, 65, 70, 72])
def test_signatures_of_the_wrong_length_are_refused(size: int):
    refused(with_value(value_of(HEADER, b"\x01" * size)))


@pytest.mark.parametrize("signature", [b"\0" * 64, b"\xff" * 64, b"\0" * 63 + b"\1"])
def test_numbers_off_the_curve_are_refused(signature: bytes):
    refused(with_value(value_of(HEADER, signature)), match="does not match")


@pytest.mark.parametrize("signature", [None, 3, "x", [], {}, {"algorithm": "ES256"}, {"\ud800": 1}, {1: 2}])
def test_signatures_of_the_wrong_shape_are_refused(signature: Any):
    poll = signed_poll(ES256)
    poll["result"]["signature"] = signature
    refused(poll)


def test_a_fifth_field_is_refused():
    refused(with_value(signed_with_header(HEADER), key="mine"), match="exactly algorithm, value")


def test_an_unsigned_result_says_so():
    poll = signed_poll(ES256)
    del poll["result"]["signature"]
    refused(poll, match="no signature")


@pytest.mark.parametrize("status", ["pending", "expired", "cancelled", None, 3])
def test_only_completed_cases_verify(status: Any):
    refused({**signed_poll(ES256), "status": status}, match="completed")


@pytest.mark.parametrize("result", [None, [], "approve"])
def test_a_poll_without_a_result_is_refused(result: Any):
    refused({**signed_poll(ES256), "result": result}, match="no result")


@pytest.mark.parametrize("poll", [None, [], "text", 3, {}])
def test_what_is_no_poll_response_is_refused(poll: Any):
    refused(poll)


@pytest.mark.parametrize("data", [{"n": 2**53}, {"t": "\ud800"}, [], "text"])
def test_data_that_cannot_have_been_signed_is_refused(data: Any):
    poll = signed_poll(ES256)
    poll["result"]["data"] = data
    refused(poll, match="cannot be a signed result")


@pytest.mark.parametrize("jwks", [None, [], "text", 3, {"keys": None}, {"keys": {}}, {"keys": "text"}])
def test_what_is_no_key_set_is_refused(jwks: Any):
    with pytest.raises(SignatureInvalid, match="key set"):
        verify_result(signed_poll(ES256), jwks)


@pytest.mark.parametrize("keys", [[], [None], ["text"], [{}], [{"kid": ["x"]}]])
def test_a_key_set_without_the_key_is_refused(keys: list[Any]):
    refused(signed_poll(ES256), {"keys": keys}, match="exactly one key with this kid")


def test_two_keys_of_one_name_are_refused():
    refused(signed_poll(ES256), {"keys": ES256.jwks()["keys"] * 2}, match="exactly one key")


def test_strange_keys_beside_ours_do_no_harm():
    strange = [None, 3, {"kid": 3}, {"kty": "EC", "kid": "x", "crv": "P-999"}, {"kty": "oct", "k": "AA"}]
    jwks = {"keys": [*strange, *ES256.jwks()["keys"]]}
    assert verify_result(signed_poll(ES256), jwks).kid == HEADER["kid"]


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA"}, {"kty": None}, {"crv": "P-384"}, {"crv": ["P-256"]},
        {"alg": "RS256"}, {"alg": None}, {"alg": ["ES256"]}, {"use": "enc"}, {"use": None},
        {"key_ops": ["sign"]}, {"key_ops": []}, {"key_ops": None}, {"key_ops": "verify"}, {"key_ops": {}},
        {"x": ""}, {"x": "AA"}, {"x": 3}, {"x": None}, {"x": "=" * 43}, {"x": "A" * 100_000}, {"x": "A" * 43},
        {"y": "ä"}, {"y": "A"},
    ],
)  # fmt: skip
def test_a_published_key_that_does_not_fit_is_refused(change: dict[str, Any]):
    refused(signed_poll(ES256), {"keys": [{**ES256.jwks()["keys"][0], **change}]}, match="published key")


def test_a_key_of_the_same_name_and_another_curve_is_refused():
    other = ECKey.generate_key("P-384").as_dict(kid=HEADER["kid"])
    refused(signed_poll(ES256), {"keys": [other]}, match="another type of key")


@pytest.mark.parametrize("padding", [0, 200])
@pytest.mark.filterwarnings("ignore:Key size")
def test_short_rsa_keys_are_refused_however_they_are_written(padding: int):
    signer = JwsSigner(ring("RS256"))
    numbers = RSAKey.generate_key(1024).public_key.public_numbers()
    modulus = base64url(b"\0" * padding + numbers.n.to_bytes(128, "big"))
    weak = {**signer.jwks()["keys"][0], "n": modulus}
    refused(signed_poll(signer), {"keys": [weak]}, match="at least 2048 bits")


@pytest.mark.parametrize("exponent", ["AA", "AQ", "Ag", "_" * 1024])
def test_rsa_keys_with_foolish_exponents_verify_nothing(exponent: str):
    signer = JwsSigner(ring("RS256"))
    refused(signed_poll(signer), {"keys": [{**signer.jwks()["keys"][0], "e": exponent}]})


def test_another_service_cannot_sign_for_ours():
    stranger = JwsSigner(ring("ES256").rotate(now=ring("ES256").current.created_at))
    renamed = {**stranger.jwks()["keys"][0], "kid": HEADER["kid"]}
    refused(signed_poll(ES256), {"keys": [renamed]}, match="does not match")


@given(poll=ANYTHING, jwks=ANYTHING)
def test_nonsense_is_refused_and_never_explodes(poll: Any, jwks: Any):
    refused(poll, jwks)


@given(signature=ANYTHING, keys=st.lists(ANYTHING, max_size=3))
def test_nonsense_inside_a_poll_is_refused_and_never_explodes(signature: Any, keys: list[Any]):
    poll = signed_poll(ES256)
    poll["result"]["signature"] = signature
    refused(poll, {"keys": keys})


@given(change=st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "alg", "use"]), ANYTHING, min_size=1))
def test_nonsense_inside_a_key_is_refused_and_never_explodes(change: dict[str, Any]):
    published = ES256.jwks()["keys"][0]
    refused(signed_poll(ES256), {"keys": [{**published, **change}]})
