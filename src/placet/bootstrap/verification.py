"""Build the parts that prove who answers, from the settings."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from starlette.requests import Request

from placet.channels.email.mailer import Mailer, mailer_from_environment
from placet.deliveries.guarded_http import GuardedHttp
from placet.desk import random_values
from placet.ports.passkey_registration import PasskeyRegistration
from placet.ports.passkey_store import PasskeyStore
from placet.ports.proof_method import ProofMethod
from placet.ports.verifier import EvidenceVerifier
from placet.settings import Settings
from placet.verification.combined import CombinedVerifier
from placet.verification.email_codes import CodeMail, EmailCodeProof, SendMail
from placet.verification.networks import NetworkProof, find_client_address, parse_ranges
from placet.verification.passkeys import (
    PasskeyProof,
    RelyingParty,
    WebAuthnRegistration,
    build_relying_party,
)
from placet.verification.settings import VerificationSettings
from placet.verification.world_id import PostJson, WorldIdVerifier

WORLD_ID_TIMEOUT = timedelta(seconds=10)
MAX_REPLY_BYTES = 100_000


class VerificationParts(Struct, frozen=True, kw_only=True):
    """What the server uses to prove who answers."""

    methods: tuple[ProofMethod, ...]
    verifier: EvidenceVerifier | None
    registration: PasskeyRegistration | None
    find_address: Callable[[Request], str | None]


def build_verification(
    settings: Settings,
    *,
    store: PasskeyStore,
    http: GuardedHttp,
    environ: Mapping[str, str],
    verifier: EvidenceVerifier | None,
    now: Callable[[], datetime],
) -> VerificationParts:
    """Return the parts. `verifier` is that of the service which embeds the server."""
    chosen = settings.verification or VerificationSettings()
    site = find_relying_party(settings) if chosen.passkeys else None
    methods: list[ProofMethod] = []
    if site is not None:
        methods.append(PasskeyProof(site=site, store=store, generate_nonce=random_values.generate_token))
    mailer = mailer_from_environment(environ)
    if mailer is not None:
        methods.append(
            EmailCodeProof(
                send=_send_with(mailer),
                generate_code=random_values.generate_code,
                service_name=settings.service_name,
                allowed=chosen.email_codes,
            )
        )
    methods += [NetworkProof(name, ranges) for name, ranges in chosen.networks.items()]
    return VerificationParts(
        methods=tuple(methods),
        verifier=_build_verifier(chosen, http, verifier, now),
        registration=WebAuthnRegistration(site=site, store=store) if site is not None else None,
        find_address=_build_address_finder(chosen),
    )


def find_relying_party(settings: Settings) -> RelyingParty | None:
    """Return the website that passkeys belong to; None if `base_url` has an IP address for a host."""
    chosen = settings.verification or VerificationSettings()
    url = urlsplit(settings.public_url)
    return build_relying_party(
        origin=f"{url.scheme}://{url.netloc}",
        host=url.hostname or "",
        name=settings.service_name,
        domain=chosen.passkey_domain,
    )


def _build_verifier(
    chosen: VerificationSettings,
    http: GuardedHttp,
    verifier: EvidenceVerifier | None,
    now: Callable[[], datetime],
) -> EvidenceVerifier | None:
    world = chosen.world_id
    if world is None:
        return verifier
    own = WorldIdVerifier(rp_id=world.rp_id, url=world.url, post=_post_json(http), clock=now)
    return own if verifier is None else CombinedVerifier((verifier, own))


def _send_with(mailer: Mailer) -> SendMail:
    async def send(mail: CodeMail) -> None:
        await mailer.send(mail.recipient, mail.subject, mail.text)

    return send


def _post_json(http: GuardedHttp) -> PostJson:
    async def post(url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        reply = await http.request(
            "POST",
            url,
            timeout_for=WORLD_ID_TIMEOUT,
            max_bytes=MAX_REPLY_BYTES,
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            body=msgspec.json.encode(body),
        )
        return reply.status, msgspec.json.decode(reply.body)

    return post


def _build_address_finder(chosen: VerificationSettings) -> Callable[[Request], str | None]:
    proxies = parse_ranges("verification.trusted_proxies", chosen.trusted_proxies)

    def find(request: Request) -> str | None:
        peer = request.client.host if request.client else None
        return find_client_address(peer, request.headers.getlist("x-forwarded-for"), proxies)

    return find
