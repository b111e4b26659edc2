"""An authenticator in software: what a passkey on a device would return, and what a forger would."""

import hashlib
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PRESENT, VERIFIED, ATTESTED = 1, 4, 64


def to_text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class SoftwareAuthenticator:
    """One passkey for one site. Its fields may be changed, as a forger would."""

    def __init__(self, origin: str, *, site: str = "localhost") -> None:
        self.origin = origin
        self.site = site
        self.flags = PRESENT | VERIFIED
        self.sign_count = 0
        self.id = secrets.token_bytes(16)
        self.user_handle = ""
        self.key = ec.generate_private_key(ec.SECP256R1())

    def create(self, options: dict[str, Any]) -> str:
        """Return what `navigator.credentials.create` returns, as our script sends it."""
        self.user_handle = options["user"]["id"]
        point = self.key.public_key().public_numbers()
        cose = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32), -3: point.y.to_bytes(32)})
        attested = bytes(16) + len(self.id).to_bytes(2) + self.id + cose
        attestation = {"fmt": "none", "attStmt": {}, "authData": self._describe(ATTESTED) + attested}
        response = {
            "clientDataJSON": to_text(self._write_client_data("webauthn.create", options)),
            "attestationObject": to_text(cbor2.dumps(attestation)),
        }
        return self._write(response)

    def sign(self, options: dict[str, Any]) -> str:
        """Return what `navigator.credentials.get` returns, as our script sends it."""
        self.sign_count += 1
        data, client = self._describe(), self._write_client_data("webauthn.get", options)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        response = {
            "clientDataJSON": to_text(client),
            "authenticatorData": to_text(data),
            "signature": to_text(signature),
            "userHandle": self.user_handle,
        }
        return self._write(response)

    def _describe(self, more: int = 0) -> bytes:
        return (
            hashlib.sha256(self.site.encode()).digest()
            + bytes([self.flags | more])
            + self.sign_count.to_bytes(4)
        )

    def _write_client_data(self, kind: str, options: dict[str, Any]) -> bytes:
        fields = {"type": kind, "challenge": options["challenge"], "origin": self.origin}
        return json.dumps({**fields, "crossOrigin": False}).encode()

    def _write(self, response: dict[str, str]) -> str:
        id = to_text(self.id)
        return json.dumps({"id": id, "rawId": id, "type": "public-key", "response": response})
