"""The `[verification]` section of the settings, and its validation."""

from typing import Annotated

from msgspec import Meta, Struct

from placet.errors import SettingsError
from placet.protocol.addresses import is_secure_or_loopback
from placet.verification.email_codes import check_allowed
from placet.verification.networks import parse_ranges

WORLD_ID_URL = "https://developer.world.org"


class WorldIdSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """World ID as a provider of `proof_of_human`, `[verification.world_id]`."""

    rp_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,100}\Z")]
    """The id of your app at World."""
    url: str = WORLD_ID_URL
    """The base URL of World's verification API."""


class VerificationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What proofs of the person the server can verify, `[verification]`."""

    passkeys: bool = True
    """Whether people can register passkeys and prove answers with them."""
    passkey_domain: str | None = None
    """The domain that passkeys belong to: the host of `base_url`, or a parent of it. Default: the host."""
    email_codes: tuple[str, ...] = ()
    """Who may answer with a code by e-mail: addresses, and domains such as @acme.example. A case that names
    its reviewers needs no entry here."""
    networks: dict[str, tuple[str, ...]] = {}
    """Named networks from which answers may be required to come, each with its address ranges."""
    trusted_proxies: tuple[str, ...] = ()
    """The address ranges of your reverse proxies, whose X-Forwarded-For tells where a person comes from."""
    world_id: WorldIdSettings | None = None
    """World ID, for proofs that an agent relays with an inline answer."""


def check_verification(settings: VerificationSettings) -> None:
    """Raise SettingsError for a section that cannot be used."""
    for address in settings.email_codes:
        check_allowed(address)
    for name, ranges in settings.networks.items():
        parse_ranges(f"verification.networks.{name}", ranges)
        if not ranges:
            raise SettingsError(f"verification.networks.{name}: has no address range, so nobody is in it.")
    parse_ranges("verification.trusted_proxies", settings.trusted_proxies)
    if settings.world_id is not None and not is_secure_or_loopback(settings.world_id.url):
        raise SettingsError("verification.world_id.url: must begin with https://.")
