"""HTTP rules of the agent client: timeouts, size limits, credentials, and the check of signed results."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
from msgspec.structs import replace

from placet.agent.flow import RESPONSE_TIMEOUT_S
from placet.agent.outcomes import Decided, Outcome
from placet.agent.service_responses import FollowedCase
from placet.agent.trust import TrustedOrigins
from placet.errors import AddressRefused, FollowFailed, KeysUnavailable, SignatureInvalid, SignatureRequired
from placet.protocol.service_paths import JWKS

USER_AGENT = "placet-agent"
TIMEOUT = httpx.Timeout(20.0, read=20.0)
LISTEN_TIMEOUT = httpx.Timeout(20.0, read=90.0)  # services send a heartbeat at least once a minute
MAX_BODY_BYTES = 4 * 1024 * 1024
SUBMIT_TIMEOUT_S = RESPONSE_TIMEOUT_S
ACCEPTED_ENCODINGS = {"Accept-Encoding": "gzip, deflate"}
CREDENTIALS = ("authorization", "x-api-key", "cookie")


def require_safe_encoding(response: httpx.Response) -> None:
    """Raise DecodingError unless the content encoding is one that was requested."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity", "gzip", "deflate"):
        raise httpx.DecodingError("its content encoding was not requested")


class BoundedBody:
    """Collects the body of one response; raises if it is too long or takes too long."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._body = bytearray()
        self._seconds = seconds
        self._until = seconds() + SUBMIT_TIMEOUT_S

    def add(self, chunk: bytes) -> None:
        """Append a chunk."""
        self._body += chunk
        if len(self._body) > MAX_BODY_BYTES:
            raise httpx.RemoteProtocolError("the response is too long")
        if self._seconds() > self._until:
            raise build_slow_response_error()

    def __bytes__(self) -> bytes:
        return bytes(self._body)


def build_slow_response_error() -> httpx.ReadTimeout:
    """Return the error for a response that takes too long."""
    return httpx.ReadTimeout("the response took too long")


def is_invalid_redirect(error: Exception) -> bool:
    """Return whether the target of a redirect is no URL; httpx parses it even if it does not follow it."""
    return isinstance(error, httpx.InvalidURL) or (
        isinstance(error, httpx.RemoteProtocolError) and "location header" in str(error)
    )


def describe_failure(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    """Return a sentence about a request that failed."""
    if isinstance(error, httpx.DecodingError | httpx.RemoteProtocolError | httpx.ReadTimeout):
        return f"The service does not answer correctly: {str(error) or type(error).__name__}."
    return f"The service cannot be reached: {str(error) or type(error).__name__}."


def select_credentials(request: httpx.Request | None) -> dict[str, str]:
    """Return the credentials in the headers of the first request, for requests to the same origin."""
    headers = request.headers if request is not None else {}
    return {name: headers[name] for name in CREDENTIALS if name in headers}


def is_stream(response: httpx.Response) -> bool:
    """Return whether a response is an event stream."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and media == "text/event-stream"


def find_keys_url(case: FollowedCase, outcome: Outcome, trust: TrustedOrigins) -> str | None:
    """Return the URL of the keys for a signed result, or None if it is unsigned or not trusted."""
    if not isinstance(outcome, Decided):
        return None
    signature = (outcome.raw.get("result") or {}).get("signature")
    if not isinstance(signature, dict):
        return None
    named = signature.get("signer")
    for url in (named, str(httpx.URL(case.service_url).join(JWKS))):
        try:
            trust.require(url if isinstance(url, str) else "", "signer")
        except AddressRefused:
            continue
        return str(url)
    return None


def verify_outcome(outcome: Outcome, keys: bytes | None) -> Outcome:
    """Return the outcome with `verified` set: unchanged without keys, False for an invalid signature.

    An answer with an invalid signature is not affirmative.
    """
    if not isinstance(outcome, Decided) or keys is None:
        return outcome
    # Imported here, since most agents never need the cryptography.
    from placet.signing.verify import verify_result

    try:
        verify_result(outcome.raw, msgspec.json.decode(keys, type=dict[str, Any]))
    except (SignatureInvalid, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return replace(outcome, verified=False, is_affirmative=False)
    return replace(outcome, verified=True)


def explain_missing_signature(outcome: Decided) -> FollowFailed:
    """Return the error for a decision whose signature is required and was not verified."""
    if outcome.verified is False:
        return SignatureRequired("The signature of the decision is invalid. Do not act on it.")
    if not isinstance((outcome.raw.get("result") or {}).get("signature"), dict):
        return SignatureRequired("The decision has no signature, and one is required. Do not act on it.")
    return KeysUnavailable(
        "The service's keys cannot be fetched, so the required signature of the decision was not verified."
    )
