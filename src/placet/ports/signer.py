"""The interface to signers of results: a key in this process, a vault, a hardware module."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Claim(NamedTuple):
    """The payload of a signature, and the digest of what was shown, for its header."""

    payload: bytes
    shown: str


class Signer(Protocol):
    """Signs results and publishes the keys that verify them. It is called for every answer: do not block."""

    @property
    def algorithm(self) -> str:
        """Return the JWS algorithm of the next signature."""
        ...

    async def sign_all(self, claims: Sequence[Claim]) -> Sequence[str]:
        """Return the detached JWS of each payload, in order."""
        ...

    def jwks(self) -> dict[str, Any]:
        """Return the JSON Web Key Set to publish: the current key first, then every earlier one."""
        ...
