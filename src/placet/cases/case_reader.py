"""Who may read the state of a case besides the principal that opened it (ruling 10)."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from placet.cases.tokens import find_matching_digest

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
PrincipalName = Annotated[str, Meta(min_length=1, max_length=200)]


class CaseReader(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The agent that called the service: by its credential there, by its public key, or by its name here."""

    bearer_sha256: Annotated[
        Sha256 | None,
        Meta(
            description=(
                "SHA-256, in lower-case hexadecimal, of the credential that the agent sent to you. It may "
                "poll and stream this case with the same credential, as Bearer token or in X-API-Key."
            ),
        ),
    ] = None
    principal: Annotated[
        PrincipalName | None, Meta(description="Another principal of this server that may do the same.")
    ] = None
    public_key: Annotated[
        dict[str, Any] | None,
        Meta(
            description=(
                "The public key with which the agent signs its requests to you, as JSON Web Key for Ed25519 "
                "or P-256. It may poll and stream this case with requests that it signs (RFC 9421)."
            )
        ),
    ] = None

    def matches_credential(self, credential: str) -> bool:
        """Return whether this is the credential that the agent sent to the service."""
        return (
            self.bearer_sha256 is not None
            and find_matching_digest(credential, (self.bearer_sha256,)) is not None
        )
