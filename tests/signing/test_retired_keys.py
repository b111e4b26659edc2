"""A retired key proves only what was signed before its retirement."""

from datetime import timedelta
from typing import Any

import pytest

from placet.errors import SignatureInvalid
from placet.signing.jws_signer import JwsSigner
from placet.signing.verify import verify_result
from tests.signing.polls import ring, signed_poll
from tests.signing.samples import LATER, NOW


def sign_at(offset: timedelta) -> dict[str, Any]:
    """Sign with the key that is retired later, as a thief of its private half does."""
    return signed_poll(JwsSigner(ring("ES256")), completed_at=(LATER + offset).isoformat())


JWKS = JwsSigner(ring("ES256").rotate(now=LATER)).jwks()


def test_result_dated_after_the_rotation_is_refused() -> None:
    with pytest.raises(SignatureInvalid, match="retired"):
        verify_result(sign_at(timedelta(minutes=2)), JWKS)


def test_result_dated_before_the_rotation_verifies() -> None:
    assert NOW < LATER
    assert verify_result(sign_at(-timedelta(seconds=1)), JWKS).action == "approve"
    assert verify_result(sign_at(timedelta(seconds=30)), JWKS).action == "approve"


@pytest.mark.parametrize("retired_at", ["", "soon", 5, True, [], {}, "2026-12-20T10:15:00", "0001-01-01"])
def test_unreadable_retirement_refuses_every_result(retired_at: object) -> None:
    keys = {"keys": [{**key, "retired_at": retired_at} for key in JWKS["keys"]]}
    with pytest.raises(SignatureInvalid):
        verify_result(sign_at(-timedelta(seconds=1)), keys)
