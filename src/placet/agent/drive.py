"""What both drivers share: which headers travel where, what is read, and how a signature is checked."""

import logging
import random
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

import httpx
import msgspec
from msgspec.structs import replace

from placet.agent.flow import ANSWER_WITHIN_S, Flow
from placet.agent.outcomes import Decided, Outcome
from placet.agent.pending import PendingCase, PendingCases
from placet.agent.reading import FollowedCase, Suggestion
from placet.agent.rounds import Advice, Rounds
from placet.agent.trust import Trust
from placet.errors import AddressRefused, NotTold, PlacetError, SignatureInvalid
from placet.protocol.signed_result import JWKS_PATH

USER_AGENT = "placet-agent"
TIMEOUT = httpx.Timeout(20.0, read=20.0)
LISTEN_TIMEOUT = httpx.Timeout(20.0, read=90.0)  # services send a heartbeat at least once a minute
LARGEST = 4 * 1024 * 1024
WHOLE_WITHIN_S = ANSWER_WITHIN_S
STREAMS_AT_MOST = 32  # of one agent; more would leave no connection for the polls
PLAINLY = {"Accept-Encoding": "gzip, deflate"}
CREDENTIALS = ("authorization", "x-api-key", "cookie")

Tell = TypeVar("Tell")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)

log = logging.getLogger("placet.agent")


class Listener(Protocol):
    """What an agent knows of a case that it follows right now."""

    case_id: str

    def nudge(self) -> None:
        """Wake the driver, and have it ask."""
        ...


class BaseAgent(Generic[Tell, Http]):
    """What an agent has and remembers, however it is driven."""

    _client: type[Http]

    def __init__(
        self,
        *,
        tell: Tell,
        http: Http | None = None,
        trusted: Iterable[str] = (),
        interval_s: float | None = None,
        max_wait: timedelta | None = None,
        streams: bool = True,
        pending: PendingCases | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._tell = tell
        self._own_http = http is None
        self._http: Http = http or self._client(
            timeout=TIMEOUT, follow_redirects=False, headers={"User-Agent": USER_AGENT}
        )
        self._trusted = tuple(trusted)
        self._interval_s = interval_s
        self._max_wait = max_wait
        self._streams = streams
        self._pending = pending
        self._now = clock or (lambda: datetime.now(UTC))
        self._rounds = Rounds()
        self._advice = Advice()
        self._following: list[Listener] = []

    def nudge(self, case_id: str) -> bool:
        """Something happened to this case, so look at it now; whether it is being followed here.

        May be called from any thread.
        """
        found = [listener for listener in list(self._following) if listener.case_id == case_id]
        for listener in found:
            listener.nudge()
        return bool(found)

    def suggestions(self, response: httpx.Response) -> tuple[Suggestion, ...]:
        """What the service thinks would make a next attempt better; for the same call twice at most."""
        return self._advice.offered(response)

    def pending(self) -> list[PendingCase]:
        """The cases that an earlier run, or another one, still waits for."""
        return self._pending.all() if self._pending is not None else []

    def _flow(self, pending: PendingCase, began: datetime) -> Flow:
        now = self._now()
        return Flow(
            pending.case,
            now=now,
            asks_first=pending.told,
            # Without a file nobody knows which reminders went out: then none that is over does again.
            reminded_up_to=pending.reminded_up_to if self._pending is not None or not pending.told else now,
            dice=random.random,
            interval_s=self._interval_s,
            give_up_at=began + self._max_wait if self._max_wait is not None else None,
            streams=self._streams and len(self._following) < STREAMS_AT_MOST,
        )


def require_plain(response: httpx.Response) -> None:
    """Raise unless the body is packed in a way that cannot hide gigabytes in one piece."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity", "gzip", "deflate"):
        raise httpx.DecodingError("it is packed in a way that was not asked for")


class Whole:
    """The body of one answer as it comes in; raises where it is too long, or never ends."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._body = bytearray()
        self._seconds = seconds
        self._until = seconds() + WHOLE_WITHIN_S

    def add(self, chunk: bytes) -> None:
        """Take in a piece."""
        self._body += chunk
        if len(self._body) > LARGEST:
            raise httpx.RemoteProtocolError("the answer is too long")
        if self._seconds() > self._until:
            raise too_slow()

    def __bytes__(self) -> bytes:
        return bytes(self._body)


def too_slow() -> httpx.ReadTimeout:
    """What to say of an answer that takes longer than there is time for."""
    return httpx.ReadTimeout("the answer does not end")


def trouble(error: httpx.HTTPError) -> str:
    """What to say of a call that went wrong on the way."""
    if isinstance(error, httpx.DecodingError | httpx.RemoteProtocolError | httpx.ReadTimeout):
        return f"The service gives no proper answer: {str(error) or type(error).__name__}."
    return f"The service cannot be reached: {str(error) or type(error).__name__}."


def not_told(error: Exception) -> NotTold:
    """What to say of a link that reached nobody; a stranger's error may carry a secret, ours do not."""
    reason = error.message if isinstance(error, PlacetError) else f"{type(error).__name__}."
    return NotTold(f"The person could not be told: {reason}")


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
