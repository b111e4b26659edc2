"""Signs results with a key in this process."""

from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any

import msgspec

from placet.errors import SettingsError
from placet.ports.signer import Claim
from placet.protocol.signed_result import ProtectedHeader
from placet.signing.algorithms import ALGORITHMS
from placet.signing.keys import KeyRing, build_key_set

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class JwsSigner:
    """A Signer with a key ring. Raises SettingsError when a key of the ring cannot be read.

    The compact form is assembled here: the library's checks of a header that we wrote ourselves would add two
    thirds to the cost of every answer. What comes out is verified with that library.
    """

    def __init__(self, ring: KeyRing) -> None:
        key = ring.current.read()
        if not key.is_private:
            raise SettingsError(f"Signing key {ring.current.kid} is in use but has no private half.")
        self._kid = ring.current.kid
        self._algorithm = ALGORITHMS[ring.current.algorithm]
        self._private_key = key.private_key
        self._published = build_key_set(ring.keys)["keys"]

    @property
    def algorithm(self) -> str:
        """Return the JWS algorithm of the next signature."""
        return self._algorithm.name

    def sign(self, payload: bytes, *, shown: str) -> str:
        """Return the detached JWS of `payload`, with `shown` in its header."""
        header = ProtectedHeader(alg=self._algorithm.name, kid=self._kid, shown=shown, typ="hitl-result+jws")
        protected = _encode_base64url(msgspec.json.encode(header))
        signature = self._algorithm.sign(self._private_key, protected + b"." + _encode_base64url(payload))
        return (protected + b".." + _encode_base64url(signature)).decode()

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """Return the detached JWS of each payload, in order."""
        return [self.sign(payload, shown=shown) for payload, shown in claims]

    def jwks(self) -> dict[str, Any]:
        """Return the JSON Web Key Set to publish: the current key first, then earlier ones."""
        return {"keys": [dict(key) for key in self._published]}


def _encode_base64url(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).rstrip(b"=").translate(_URL_SAFE)
