"""The seam to whatever proves answers: a key in this process, a vault, a hardware module."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Claim(NamedTuple):
    """What one signature covers, and the digest of what was shown that its header carries."""

    payload: bytes
    shown: str


class Signer(Protocol):
    """Signs results and publishes the keys that verify them; called at every answer: it must not block."""

    @property
    def algorithm(self) -> str:
        """The JWS algorithm of the next signature."""
        ...

    async def sign_all(self, claims: Sequence[Claim]) -> Sequence[str]:
        """The detached JWS over each payload, in their order."""
        ...

    def jwks(self) -> dict[str, Any]:
        """The JSON Web Key Set to publish: the current key first, then every earlier one."""
        ...
