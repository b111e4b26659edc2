"""The seam to whatever proves answers: a key in this process, a vault, a hardware module."""

from typing import Any, Protocol


class Signer(Protocol):
    """Signs results and publishes the keys that verify them; called at every answer: it must not block."""

    @property
    def algorithm(self) -> str:
        """The JWS algorithm of the next signature."""
        ...

    def sign(self, payload: bytes, *, shown: str) -> str:
        """The detached JWS over `payload`, its header carrying `shown`."""
        ...

    def jwks(self) -> dict[str, Any]:
        """The JSON Web Key Set to publish: the current key first, then every earlier one."""
        ...
