"""The interface to proofs that a person gives on our pages: a passkey, a code, the network they are in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from placet.ports.verification_store import PageProof
from placet.protocol.verification import ProofSource


class ProofRequest(Struct, frozen=True, kw_only=True):
    """The answer that is to be proved, and who may prove it."""

    case_id: str
    attempt_id: str
    prompt: str
    action: str
    answer_digest: str
    now: datetime
    reviewers: tuple[str, ...] = ()
    """The e-mail addresses whose proofs count; empty if any person counts that the method accepts."""
    address: str | None = None
    """The network address that the person comes from."""


class ProofMethod(Protocol):
    """One way to prove an answer. `name` is the name of its section on the page."""

    name: str
    source: ProofSource

    is_automatic: bool
    """Whether it needs nothing from the person, so that it is tried with every request."""

    starts_alone: bool
    """Whether it is started as soon as the page is opened."""

    may_retry: bool
    """Whether a failed proof can be tried again without a new start, as a mistyped code can."""

    async def start(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what to remember until the proof comes. `started` is what an earlier start returned.

        Raises VerificationFailed if this person cannot use the method.
        """
        ...

    async def finish(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> PageProof:
        """Return the verified proof. Raises VerificationFailed, with what the person can do."""
        ...

    def describe(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the page shows of a start; never a secret."""
        ...
