"""Callback signatures in both schemes, the retry schedule, and what a reply means."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from placet.errors import SignatureInvalid, ValidationFailed
from placet.protocol.callback import (
    HITL_SIGNATURE,
    format_secret,
    read_secret_key,
    sign_callback,
    verify_callback,
)

NOW = datetime(2026, 3, 26, 12, 0, 0, 999_000, tzinfo=UTC)
OLD = format_secret(bytes(range(24)))
NEW = format_secret(bytes(range(100, 164)))
STRANGER = format_secret(b"s" * 32)
BODY = '{"event":"review.completed","note":"grüezi 🙂"}'.encode()


def sign(*secrets: str, at: datetime = NOW, body: bytes = BODY) -> dict[str, str]:
    return sign_callback(body, secrets=secrets, message_id="msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", at=at)


def hitl_only(*secrets: str) -> dict[str, str]:
    return {HITL_SIGNATURE: sign(*secrets)[HITL_SIGNATURE]}


def reason(headers, *, secrets=(OLD,), body: bytes = BODY, now: datetime = NOW, **options) -> str:
    with pytest.raises(SignatureInvalid) as invalid:
        verify_callback(body, headers, secrets=secrets, now=now, **options)
    return invalid.value.message


def test_published_example_of_standard_webhooks_gets_its_published_signature() -> None:
    headers = sign_callback(
        b'{"test": 2432232314}',
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at=datetime.fromtimestamp(1614265330, UTC),
    )
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_another_implementation_accepts_our_headers_and_no_others() -> None:
    present = datetime.now(UTC)
    headers = sign(NEW, OLD, at=present)
    for secret in (NEW, OLD):
        assert Webhook(secret).verify(BODY, headers) == json.loads(BODY)
    for secret, body in ((STRANGER, BODY), (OLD, BODY + b" ")):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, headers)


def test_we_accept_what_another_implementation_signed() -> None:
    theirs = Webhook(OLD).sign("msg_1", NOW, BODY.decode())
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(NOW.timestamp())),
        "Webhook-Signature": theirs,
    }
    assert verify_callback(BODY, headers, secrets=[OLD], now=NOW) == "msg_1"


def test_plain_receiver_checks_the_body_with_the_secret_as_it_was_given() -> None:
    expected = hmac.new(OLD.encode(), BODY, hashlib.sha256).hexdigest()
    assert sign(OLD)[HITL_SIGNATURE] == f"sha256={expected}"


def test_rotation_signs_with_both_secrets_in_the_standard_header_alone() -> None:
    both = sign(OLD, NEW)
    assert both[HITL_SIGNATURE] == sign(OLD)[HITL_SIGNATURE]
    assert both["webhook-signature"].split(" ") == [
        sign(OLD)["webhook-signature"],
        sign(NEW)["webhook-signature"],
    ]


@pytest.mark.parametrize("known", [(NEW,), (OLD,), (STRANGER, OLD)])
def test_receiver_with_either_secret_verifies_during_rotation(known: tuple[str, ...]) -> None:
    assert verify_callback(BODY, sign(NEW, OLD), secrets=known, now=NOW) == "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"


def test_header_names_and_hex_are_read_in_any_case() -> None:
    headers = {name.upper(): value for name, value in sign(OLD).items()}
    assert verify_callback(BODY, headers, secrets=[OLD], now=NOW)
    shouted = {"x-HITL-signature": hitl_only(OLD)[HITL_SIGNATURE].upper()}
    assert verify_callback(BODY, shouted, secrets=[OLD], now=NOW) is None


def test_plain_signature_works_with_a_secret_of_another_service() -> None:
    secret = "any shared text, ünïcode too"
    signature = hmac.new(secret.encode(), BODY, hashlib.sha256).hexdigest()
    headers = {HITL_SIGNATURE: f"sha256={signature}"}
    assert verify_callback(BODY, headers, secrets=[secret], now=NOW) is None


def test_receiver_may_insist_on_a_timed_signature() -> None:
    assert "no Standard Webhooks headers" in reason(hitl_only(OLD), accept_untimed=False)
    assert verify_callback(BODY, sign(OLD), secrets=[OLD], now=NOW, accept_untimed=False)


@pytest.mark.parametrize("headers", [sign(OLD), hitl_only(OLD)])
def test_changed_body_does_not_verify(headers: dict[str, str]) -> None:
    assert "matches" in reason(headers, body=BODY + b"\n")
    assert "matches" in reason(headers, secrets=(STRANGER,))


@pytest.mark.parametrize(
    ("name", "value"), [("webhook-id", "msg_other"), ("webhook-timestamp", "1774526399")]
)
def test_changed_id_or_time_does_not_verify(name: str, value: str) -> None:
    assert "matches" in reason(sign(OLD) | {name: value})


@pytest.mark.parametrize("shift", [timedelta(minutes=5, seconds=2), -timedelta(minutes=5, seconds=2)])
def test_old_and_future_callbacks_are_refused(shift: timedelta) -> None:
    headers = sign(OLD)
    assert "too far" in reason(headers, now=NOW + shift)
    assert verify_callback(BODY, headers, secrets=[OLD], now=NOW + shift, tolerance_for=timedelta(hours=1))


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_half_of_the_standard_headers_is_no_way_around_them(missing: str) -> None:
    headers = sign(OLD)
    del headers[missing]
    assert missing in reason(headers)


def test_broken_standard_signature_is_not_rescued_by_the_plain_one() -> None:
    assert "webhook-signature" in reason(sign(OLD) | {"webhook-signature": "v1,AAAA"})


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": ""},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,,,"},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": "v1,\ud800"},
        {"webhook-signature": sign(OLD)["webhook-signature"].replace("v1,", "v1a,")},
        {"webhook-signature": sign(OLD)["webhook-signature"].replace("v1,", "v2,")},
        {"webhook-signature": "v1,AAAA " * 10_000},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "1.5"},
        {"webhook-timestamp": "1e9"},
        {"webhook-timestamp": "٣"},
        {"webhook-timestamp": "9" * 400},
        {"webhook-id": ""},
        {"webhook-id": "a.b"},
        {"webhook-id": "\ud800"},
        {"webhook-id": "x" * 100_000},
        {"Webhook-Id": "msg_second"},
        {"webhook-id": None},
        {"webhook-id": b"msg"},
        {7: "seven"},
    ],
)
def test_malformed_headers_are_an_invalid_signature_and_nothing_worse(change) -> None:
    assert reason(sign(OLD) | change)


@pytest.mark.parametrize(
    "value", ["", ",", "sha256", "sha256=", "sha1=00", "é", "\ud800", "sha256=zz," * 9999]
)
def test_malformed_plain_signature_is_invalid_and_nothing_worse(value: str) -> None:
    assert reason({HITL_SIGNATURE: value})


def test_callback_without_any_signature_is_refused() -> None:
    assert "no signature" in reason({})
    assert "no signature" in reason({"Content-Type": "application/json"})


@pytest.mark.parametrize("secrets", [(), ("",), ("whsec_",), ("plain",), ("whsec_!!!",)])
def test_standard_headers_never_verify_without_a_real_secret(secrets: tuple[str, ...]) -> None:
    assert "None of the secrets" in reason(sign(OLD), secrets=secrets)


def test_empty_secret_signs_nothing() -> None:
    forged = {HITL_SIGNATURE: "sha256=" + hmac.new(b"", BODY, hashlib.sha256).hexdigest()}
    assert reason(forged, secrets=("",))
    assert reason(forged, secrets=())


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", HITL_SIGNATURE, "other"]),
        st.text(),
    ),
    st.binary(),
)
def test_arbitrary_headers_never_verify_and_never_explode(headers: dict[str, str], body: bytes) -> None:
    assert reason(headers, body=body)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "plain",
        "WHSEC_" + "A" * 32,
        format_secret(b"k" * 24).removeprefix("whsec_"),
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        "whsec_" + "A" * 31,
        "whsec_" + "é" * 32,
        OLD + "\n",
    ],
)
def test_malformed_secret_is_refused_before_anything_is_signed(secret: str) -> None:
    with pytest.raises(ValidationFailed):
        sign(secret)


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secret_reads_back_as_it_was_written(size: int) -> None:
    assert read_secret_key(format_secret(b"k" * size)) == b"k" * size


@pytest.mark.parametrize("size", [0, 23, 65])
def test_secret_of_the_wrong_size_is_not_written(size: int) -> None:
    with pytest.raises(ValidationFailed):
        format_secret(b"k" * size)


@pytest.mark.parametrize("message_id", ["", "a.b", "a b", "a\r\nb", "é", "x" * 257])
def test_id_that_could_confuse_a_receiver_is_not_signed(message_id: str) -> None:
    with pytest.raises(ValidationFailed):
        sign_callback(BODY, secrets=[OLD], message_id=message_id, at=NOW)


def test_callback_is_not_signed_without_secrets_or_time_zone() -> None:
    with pytest.raises(ValidationFailed):
        sign()
    with pytest.raises(ValidationFailed):
        sign(OLD, at=NOW.replace(tzinfo=None))
