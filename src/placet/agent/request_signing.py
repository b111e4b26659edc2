"""Signs an agent's requests with a key of its own (RFC 9421), in place of a credential that is sent."""

import base64
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, import_key

from placet.errors import SettingsError
from placet.http.signed_requests import COVERED, find_key_type

COORDINATE_BYTES = 32


class RequestSigner(httpx.Auth):
    """Signs every request: pass it as `auth` to the HTTP client of an agent.

    `private_key` is a JSON Web Key for Ed25519 or P-256. A signature covers the method and the address, so it
    is of no use for another request.
    """

    def __init__(
        self, private_key: Mapping[str, Any], *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        try:
            key = import_key(dict(private_key))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise SettingsError("private_key: this is not a JSON Web Key.") from error
        if not isinstance(key, ECKey | OKPKey) or not key.is_private:
            raise SettingsError("private_key: send a private JSON Web Key for Ed25519 or P-256.")
        self._algorithm = find_key_type(private_key).algorithm
        self._key: Any = key.private_key
        self._key_id = key.thumbprint()
        self._now = clock
        self.public_key = dict(key.as_dict(private=False))
        """What services pass on as `reader.public_key`."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the headers `Signature-Input` and `Signature`."""
        created = int(self._now().timestamp())
        names = " ".join(f'"{name}"' for name in COVERED)
        params = f'({names});created={created};keyid="{self._key_id}";alg="{self._algorithm}"'
        values = (request.method, str(request.url.copy_with(fragment=None)))
        lines = [f'"{name}": {value}' for name, value in zip(COVERED, values, strict=True)]
        base = "\n".join([*lines, f'"@signature-params": {params}'])
        signature = base64.b64encode(self._sign(base.encode())).decode()
        request.headers["Signature-Input"] = f"sig={params}"
        request.headers["Signature"] = f"sig=:{signature}:"
        yield request

    def _sign(self, message: bytes) -> bytes:
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(self._key.sign(message, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(COORDINATE_BYTES, "big") + s.to_bytes(COORDINATE_BYTES, "big")
        return bytes(self._key.sign(message))
