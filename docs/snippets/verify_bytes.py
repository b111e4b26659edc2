import base64
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature


def unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def check(poll: dict, jwks: dict) -> None:
    """Raises InvalidSignature, or KeyError and the like for what is no signed result. ES256 only."""
    signature = poll["result"]["signature"]
    header, _, tail = signature["value"].partition("..")
    protected = json.loads(unpack(header))
    payload = {
        "action": poll["result"]["action"],
        "case_id": poll["case_id"],
        "completed_at": poll["completed_at"],
        "data": poll["result"]["data"],
        "shown": protected["shown"],
    }
    # RFC 8785; this line does for data that holds text, whole numbers, true, false and null in ASCII.
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()

    jwk = next(key for key in jwks["keys"] if key["kid"] == protected["kid"])
    x, y = (int.from_bytes(unpack(jwk[name]), "big") for name in ("x", "y"))
    public_key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    raw = unpack(tail)
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    signed = f"{header}.{pack(canonical)}".encode()
    public_key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))


# What follows is for the tests.
import os  # noqa: E402

import httpx  # noqa: E402
from cryptography.exceptions import InvalidSignature  # noqa: E402

from placet import PlacetClient  # noqa: E402

URL = os.environ["PLACET_SERVER"]
with PlacetClient(URL, os.environ["PLACET_KEY"]) as placet:
    hitl = placet.open("approval", "May it go out?", context={"artifact": "Hello"})["hitl"]
    answer = {"action": "edit", "data": {"feedback": "Warmer, please.", "edits": {"artifact": "Dear all"}}}
    httpx.post(hitl["review_url"].replace("?", "/respond?"), json=answer)
    poll = placet.status(hitl["case_id"])
keys = httpx.get(poll["result"]["signature"]["signer"]).json()
check(poll, keys)
try:
    check({**poll, "case_id": "review_other"}, keys)
except InvalidSignature:
    pass
else:
    raise AssertionError("a changed result must not verify")
