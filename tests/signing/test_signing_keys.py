import json
from datetime import timedelta
from typing import Any

import pytest
from joserfc.jwk import RSAKey
from joserfc.jwk import import_key as plain_import
from msgspec.structs import replace

from placet.errors import SettingsError
from placet.protocol import signed_result
from placet.signing.algorithms import ALGORITHMS, import_key
from placet.signing.keys import KeyRing, SigningKey, dump_key, generate_key, load_key
from tests.signing.polls import ring
from tests.signing.samples import LATER, NOW

PRIVATE_MEMBERS = {"d", "p", "q", "dp", "dq", "qi"}


def altered(key: SigningKey, **members: Any) -> str:
    return dump_key(replace(key, jwk=json.dumps({**json.loads(key.jwk), **members})))


def test_the_table_has_every_algorithm_of_the_protocol():
    assert tuple(ALGORITHMS) == signed_result.ALGORITHMS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_survives_its_text(algorithm: str):
    key = ring(algorithm).current
    assert load_key(dump_key(key)) == key
    assert load_key(dump_key(key).encode()) == key


def test_keys_are_es256_unless_told():
    assert generate_key(now=NOW).algorithm == "ES256"


def test_rsa_keys_have_2048_bits():
    assert RSAKey.import_key(json.loads(ring("RS256").current.jwk)).raw_value.key_size == 2048


@pytest.mark.parametrize("algorithm", ["none", "HS256", "ES512", "es256", "", "RS256 "])
def test_an_unknown_algorithm_is_named_with_the_known_ones(algorithm: str):
    with pytest.raises(SettingsError, match="ES256, RS256, EdDSA"):
        generate_key(algorithm, now=NOW)


def test_kid_is_the_thumbprint_of_rfc8037_appendix_a3():
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    key = import_key(ALGORITHMS["EdDSA"], jwk)
    assert key.thumbprint() == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_key_does_not_print_its_secret():
    key = ring("ES256").current
    assert json.loads(key.jwk)["d"] not in f"{key!r} {key} {ring('ES256')!r}"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_retired_key_has_no_private_half_and_still_loads(algorithm: str):
    retired = ring(algorithm).current.retire(now=LATER)
    assert not PRIVATE_MEMBERS & json.loads(retired.jwk).keys()
    assert load_key(dump_key(retired)) == retired
    published = {**ring(algorithm).current.to_public_jwk(), "retired_at": LATER.isoformat()}
    assert retired.to_public_jwk() == published


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_published_is_public_and_says_what_it_is_for(algorithm: str):
    published = ring(algorithm).current.to_public_jwk()
    assert not PRIVATE_MEMBERS & published.keys()
    assert published["kid"] == plain_import(published).thumbprint()
    assert (published["alg"], published["use"]) == (algorithm, "sig")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"kid":1}',
        b"\xff",
        '{"kid":"k","algorithm":"ES256","jwk":"{}","created_at":"now"}',
    ],
)
def test_damaged_text_is_refused(text: str | bytes):
    with pytest.raises(SettingsError, match="not readable"):
        load_key(text)


@pytest.mark.parametrize(
    "jwk", ["", "[]", "null", "{}", '{"kty":["EC"]}', '{"kty":"EC","crv":"P-256"}', "[" * 5000]
)
def test_a_jwk_that_is_none_is_refused(jwk: str):
    with pytest.raises(SettingsError, match="cannot be read"):
        load_key(dump_key(replace(ring("ES256").current, jwk=jwk)))


@pytest.mark.parametrize(("algorithm", "member"), [("ES256", "x"), ("RS256", "n")])
def test_a_key_with_the_public_half_of_another_is_refused(algorithm: str, member: str):
    other = ring(algorithm).rotate(now=LATER).current
    with pytest.raises(SettingsError, match="cannot be read"):
        load_key(altered(ring(algorithm).current, **{member: json.loads(other.jwk)[member]}))


def test_an_rsa_key_that_lost_a_prime_is_refused():
    key = ring("RS256").current
    jwk = {name: value for name, value in json.loads(key.jwk).items() if name != "p"}
    with pytest.raises(SettingsError, match="malformed"):
        load_key(dump_key(replace(key, jwk=json.dumps(jwk))))


def test_an_ed25519_key_publishes_its_own_public_half_whatever_stands_beside_it():
    key, other = ring("EdDSA").current, generate_key("EdDSA", now=NOW)
    loaded = load_key(altered(key, x=json.loads(other.jwk)["x"]))
    assert loaded.to_public_jwk() == key.to_public_jwk()


def test_an_altered_key_or_name_is_refused():
    key = ring("EdDSA").current
    with pytest.raises(SettingsError, match="does not match its kid"):
        load_key(altered(key, d=json.loads(generate_key("EdDSA", now=NOW).jwk)["d"]))
    with pytest.raises(SettingsError, match="does not match its kid"):
        load_key(dump_key(replace(key, kid="elsewhere")))
    with pytest.raises(SettingsError, match="another type of key"):
        load_key(dump_key(replace(key, algorithm="ES256")))


def test_a_key_in_use_needs_its_private_half():
    key = ring("ES256").current
    public = replace(key, jwk=key.retire(now=LATER).jwk)
    with pytest.raises(SettingsError, match="no private half"):
        load_key(dump_key(public))


def test_rotation_makes_a_new_key_and_keeps_the_old_one():
    old = ring("ES256")
    new = old.rotate(now=LATER)
    assert new.current.kid != old.current.kid
    assert (new.current.created_at, new.current.retired_at) == (LATER, None)
    assert [(key.kid, key.retired_at) for key in new.earlier] == [(old.current.kid, LATER)]
    assert old.current.retired_at is None


def test_rotation_can_change_the_algorithm():
    ring_of_two = ring("ES256").rotate(now=LATER, algorithm="EdDSA")
    assert [key.algorithm for key in ring_of_two.keys] == ["EdDSA", "ES256"]
    assert ring_of_two.rotate(now=LATER).current.algorithm == "EdDSA"


def test_a_ring_is_the_same_in_whatever_order_its_keys_are_read():
    rotated = ring("ES256").rotate(now=LATER).rotate(now=LATER + timedelta(days=1))
    assert KeyRing.of(rotated.keys) == KeyRing.of(rotated.keys[::-1]) == rotated


def test_of_two_keys_in_use_everyone_picks_the_same():
    keys = [generate_key(now=NOW), generate_key(now=NOW)]
    assert KeyRing.of(keys) == KeyRing.of(keys[::-1])
    assert not any(key.retired_at is None for key in KeyRing.of(keys).rotate(now=LATER).earlier)


def test_a_ring_needs_a_key_that_can_sign():
    with pytest.raises(SettingsError, match="no active signing key"):
        KeyRing.of([])
    with pytest.raises(SettingsError, match="no active signing key"):
        KeyRing.of([ring("ES256").current.retire(now=LATER)])


def test_a_ring_refuses_two_keys_of_one_name():
    with pytest.raises(SettingsError, match="have the same kid"):
        KeyRing.of([ring("ES256").current] * 2)
