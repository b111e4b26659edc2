"""HTTP rules of the agent client: timeouts, size limits, credentials, and the check of signed results."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
from msgspec.structs import replace

from placet.agent.flow import ANSWER_WITHIN_S
from placet.agent.outcomes import Decided, Outcome
from placet.agent.service_responses import FollowedCase
from placet.agent.trust import TrustedOrigins
from placet.errors import AddressRefused, SignatureInvalid
from placet.protocol.signed_result import JWKS_PATH

USER_AGENT = "placet-agent"
TIMEOUT = httpx.Timeout(20.0, read=20.0)
LISTEN_TIMEOUT = httpx.Timeout(20.0, read=90.0)  # services send a heartbeat at least once a minute
LARGEST = 4 * 1024 * 1024
RESPONSE_WITHIN_S = ANSWER_WITHIN_S
ACCEPTED_ENCODINGS = {"Accept-Encoding": "gzip, deflate"}
CREDENTIALS = ("authorization", "x-api-key", "cookie")


def require_safe_encoding(response: httpx.Response) -> None:
    """Raise unless the body is packed in a way that cannot hide gigabytes in one piece."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity", "gzip", "deflate"):
        raise httpx.DecodingError("it is packed in a way that was not asked for")


class BoundedBody:
    """The body of one answer as it comes in; raises where it is too long, or never ends."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._body = bytearray()
        self._seconds = seconds
        self._until = seconds() + RESPONSE_WITHIN_S

    def add(self, chunk: bytes) -> None:
        """Take in a piece."""
        self._body += chunk
        if len(self._body) > LARGEST:
            raise httpx.RemoteProtocolError("the answer is too long")
        if self._seconds() > self._until:
            raise slow_response_error()

    def __bytes__(self) -> bytes:
        return bytes(self._body)


def slow_response_error() -> httpx.ReadTimeout:
    """What to say of an answer that takes longer than there is time for."""
    return httpx.ReadTimeout("the answer does not end")


def describe_failure(error: httpx.HTTPError) -> str:
    """What to say of a call that went wrong on the way."""
    if isinstance(error, httpx.DecodingError | httpx.RemoteProtocolError | httpx.ReadTimeout):
        return f"The service gives no proper answer: {str(error) or type(error).__name__}."
    return f"The service cannot be reached: {str(error) or type(error).__name__}."


def credentials_of(request: httpx.Request | None) -> dict[str, str]:
    """What the first request carried to say who the agent is; it goes to the same origin again."""
    headers = request.headers if request is not None else {}
    return {name: headers[name] for name in CREDENTIALS if name in headers}


def is_stream(response: httpx.Response) -> bool:
    """Whether this is an event stream, and not an error or a page."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and media == "text/event-stream"


def find_keys_url(case: FollowedCase, outcome: Outcome, trust: TrustedOrigins) -> str | None:
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


def verify_outcome(outcome: Outcome, keys: bytes | None) -> Outcome:
    """The outcome with what its signature proves: None without keys, False if it does not hold."""
    if not isinstance(outcome, Decided) or keys is None:
        return outcome
    # Checking needs the cryptography that most agents never load.
    from placet.signing.verify import verify_result

    try:
        verify_result(outcome.raw, msgspec.json.decode(keys, type=dict[str, Any]))
    except (SignatureInvalid, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return replace(outcome, verified=False)
    return replace(outcome, verified=True)
