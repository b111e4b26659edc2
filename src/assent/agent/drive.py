"""What both drivers share: which headers travel where, and how a signature is checked."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec
from msgspec.structs import replace

from assent.agent.outcomes import Decided, Outcome
from assent.agent.reading import FollowedCase
from assent.agent.trust import Trust
from assent.errors import AddressRefused, SignatureInvalid
from assent.protocol.signed_result import JWKS_PATH

USER_AGENT = "assent-agent"
TIMEOUT = httpx.Timeout(20.0, read=20.0)
LISTEN_TIMEOUT = httpx.Timeout(20.0, read=90.0)  # services send a heartbeat at least once a minute
LARGEST = 4 * 1024 * 1024
CREDENTIALS = ("authorization", "x-api-key", "cookie")


def credentials_of(request: httpx.Request | None) -> dict[str, str]:
    """What the first request carried to say who the agent is; it goes to the same origin again."""
    headers = request.headers if request is not None else {}
    return {name: headers[name] for name in CREDENTIALS if name in headers}


def is_stream(response: httpx.Response) -> bool:
    """Whether this is an event stream, and not an error or a page."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and media == "text/event-stream"


def keys_address(case: FollowedCase, outcome: Outcome, trust: Trust) -> str | None:
    """Where the keys for this result are published, if it is signed and the place is one we deal with."""
    if not isinstance(outcome, Decided):
        return None
    signature = (outcome.raw.get("result") or {}).get("signature")
    if not isinstance(signature, dict):
        return None
    named = signature.get("signer")
    for url in (named, str(httpx.URL(case.service_url).join(JWKS_PATH))):
        try:
            trust.require(url if isinstance(url, str) else "", "signer")
        except AddressRefused:
            continue
        return str(url)
    return None


def checked(outcome: Outcome, keys: bytes | None) -> Outcome:
    """The outcome with what its signature proves: None without one, False if it does not hold."""
    if not isinstance(outcome, Decided) or keys is None:
        return outcome
    # Checking needs the cryptography that most agents never load.
    from assent.signing.verify import verify_result

    try:
        jwks: Mapping[str, Any] = msgspec.json.decode(keys)
        verify_result(outcome.raw, jwks)
    except (SignatureInvalid, msgspec.DecodeError):
        return replace(outcome, verified=False)
    return replace(outcome, verified=True)
