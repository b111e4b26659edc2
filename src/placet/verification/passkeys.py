"""Prove an answer with a passkey, and register passkeys (WebAuthn)."""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import Any

import msgspec
from msgspec import Struct

from placet.errors import CaseConflict, SettingsError, VerificationFailed
from placet.ports.passkey_store import Passkey, PasskeyInvitation, PasskeyStore
from placet.ports.proof_method import ProofRequest
from placet.ports.verification_store import PageProof
from placet.protocol.mail_address import is_one_of
from placet.protocol.poll import RespondedBy
from placet.protocol.verification import OWN_PROVIDER, PASSKEY, ProofSource
from placet.text.wording import message
from placet.verification.page_proof import build_page_proof

log = logging.getLogger("placet")

FORMAT = "x-webauthn"
TIMEOUT_MS = 5 * 60 * 1000
MAX_CREDENTIAL_BYTES = 20_000

UNKNOWN = message("This passkey is not known here. Use another one, or ask for an invitation to register.")
NOT_A_REVIEWER = message("The person with this passkey cannot answer this question.")
NOT_VALID = message("The passkey could not be verified. Try again.")


class RelyingParty(Struct, frozen=True, kw_only=True):
    """The website that passkeys belong to. Browsers offer a passkey only to the domain it was made for."""

    id: str
    name: str
    origin: str


class _Response(Struct):
    user_handle: str | None = msgspec.field(default=None, name="userHandle")


class _Credential(Struct):
    id: str
    response: _Response


_credential_decoder = msgspec.json.Decoder(_Credential)


class PasskeyProof:
    """Accepts the signature of an registered passkey over the answer."""

    name = "passkey"
    is_automatic = False
    starts_alone = True
    may_retry = False

    def __init__(self, *, site: RelyingParty, store: PasskeyStore, generate_nonce: Callable[[], str]) -> None:
        self._site = site
        self._store = store
        self._generate_nonce = generate_nonce
        self.source = ProofSource(
            proof_type=PASSKEY,
            provider=OWN_PROVIDER,
            formats=(FORMAT,),
            paths=frozenset({"browser_submit"}),
            assurance="high",
        )

    async def start(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a new nonce. The challenge that the passkey signs contains the digest of the answer."""
        return {"challenge": _build_challenge(request.answer_digest, self._generate_nonce()).hex()}

    async def finish(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> PageProof:
        """Return the proof of the person whose passkey signed this answer."""
        credential = typed.get("credential", "")
        passkey = await self._find_passkey(credential)
        if request.reviewers and not is_one_of(passkey.email, request.reviewers):
            raise VerificationFailed(NOT_A_REVIEWER)
        sign_count = self._verify(credential, passkey, bytes.fromhex(started.get("challenge", "")))
        try:
            await self._store.record_passkey_use(
                passkey.id, previous=passkey.sign_count, sign_count=sign_count, used_at=request.now
            )
        except CaseConflict:  # it was removed, or its counter was used, since it was read
            raise VerificationFailed(NOT_VALID) from None
        person = RespondedBy(name=passkey.name, email=passkey.email)
        return build_page_proof(self.source, now=request.now, person=person)

    def describe(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options for the browser."""
        from webauthn import generate_authentication_options, options_to_json
        from webauthn.helpers.structs import UserVerificationRequirement

        options = generate_authentication_options(
            rp_id=self._site.id,
            challenge=bytes.fromhex(started.get("challenge", "00")),
            timeout=TIMEOUT_MS,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return {"options": options_to_json(options)}

    async def _find_passkey(self, credential: str) -> Passkey:
        read = _read_credential(credential)
        passkey = await self._store.get_passkey(read.id)
        if passkey is None:
            raise VerificationFailed(UNKNOWN)
        if read.response.user_handle not in (None, passkey.user_handle):
            raise VerificationFailed(NOT_VALID)
        return passkey

    def _verify(self, credential: str, passkey: Passkey, challenge: bytes) -> int:
        from webauthn import base64url_to_bytes, verify_authentication_response

        if not challenge:
            raise VerificationFailed(NOT_VALID)
        try:
            verified = verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self._site.id,
                expected_origin=self._site.origin,
                credential_public_key=base64url_to_bytes(passkey.public_key),
                credential_current_sign_count=passkey.sign_count,
                require_user_verification=True,
            )
        except Exception as error:  # of the library, or of what it parses: nothing was verified
            log.warning("passkey_refused passkey=%s reason=%s", passkey.id[:12], type(error).__name__)
            raise VerificationFailed(NOT_VALID) from error
        return verified.new_sign_count


class WebAuthnRegistration:
    """Lets a person with an invitation create a passkey."""

    def __init__(self, *, site: RelyingParty, store: PasskeyStore) -> None:
        self._site = site
        self._store = store

    async def describe(self, invitation: PasskeyInvitation) -> str:
        """Return the options for the browser, as JSON."""
        from webauthn import base64url_to_bytes, generate_registration_options, options_to_json
        from webauthn.helpers.structs import (
            AuthenticatorSelectionCriteria,
            PublicKeyCredentialDescriptor,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        known = [
            one for one in await self._store.list_passkeys() if one.user_handle == invitation.user_handle
        ]
        options = generate_registration_options(
            rp_id=self._site.id,
            rp_name=self._site.name,
            user_id=base64url_to_bytes(invitation.user_handle),
            user_name=invitation.email,
            user_display_name=invitation.name or invitation.email,
            challenge=_build_challenge("register", invitation.digest),
            timeout=TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=[
                PublicKeyCredentialDescriptor(id=base64url_to_bytes(one.id)) for one in known
            ],
        )
        return options_to_json(options)

    async def register(
        self, invitation: PasskeyInvitation, credential: str, *, now: datetime, label: str | None = None
    ) -> Passkey:
        """Store the new passkey and use up the invitation. Raises VerificationFailed if it is not valid."""
        from webauthn import verify_registration_response
        from webauthn.helpers import bytes_to_base64url
        from webauthn.helpers.structs import CredentialDeviceType

        _read_credential(credential)
        try:
            verified = verify_registration_response(
                credential=credential,
                expected_challenge=_build_challenge("register", invitation.digest),
                expected_rp_id=self._site.id,
                expected_origin=self._site.origin,
                require_user_verification=True,
            )
        except Exception as error:
            log.warning("passkey_registration_refused reason=%s", type(error).__name__)
            raise VerificationFailed(message("The passkey could not be verified. Try again.")) from error
        passkey = Passkey(
            id=bytes_to_base64url(verified.credential_id),
            email=invitation.email,
            name=invitation.name,
            user_handle=invitation.user_handle,
            public_key=bytes_to_base64url(verified.credential_public_key),
            sign_count=verified.sign_count,
            is_synced=verified.credential_device_type is CredentialDeviceType.MULTI_DEVICE,
            label=label,
            created_at=now,
        )
        try:
            await self._store.register_passkey(passkey, invitation=invitation.digest)
        except CaseConflict:
            raise VerificationFailed(
                message("This invitation was used already, or the passkey is registered. Ask for a new one.")
            ) from None
        return passkey


def build_relying_party(
    *, origin: str, host: str, name: str, domain: str | None = None
) -> RelyingParty | None:
    """Return the website for passkeys, or None if browsers offer none there: its host is an IP address.

    Raises SettingsError for a `domain` that the host is not part of.
    """
    if domain is not None and host != domain and not host.endswith(f".{domain}"):
        raise SettingsError(f"verification.passkey_domain: {domain[:80]!a} is not {host} or a parent of it.")
    try:
        ip_address(host)
    except ValueError:
        return RelyingParty(id=domain or host, name=name, origin=origin)
    return None


def _build_challenge(*parts: str) -> bytes:
    return hashlib.sha256(json.dumps(["placet", *parts]).encode()).digest()


def _read_credential(text: str) -> _Credential:
    if len(text) > MAX_CREDENTIAL_BYTES:
        raise VerificationFailed(NOT_VALID)
    try:
        return _credential_decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise VerificationFailed(NOT_VALID) from error
