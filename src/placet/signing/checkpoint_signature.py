"""Signatures of checkpoints, made with the keys that sign results.

The payload of a checkpoint is never that of a result: the one begins with `audit`, the other with `action`.
"""

from collections.abc import Mapping
from typing import Any

from placet.cases.log_checkpoint import LogCheckpoint, SignedCheckpoint, build_payload
from placet.ports.signer import Claim, Signer
from placet.protocol.signed_result import format_wire_time, parse_signature
from placet.signing.verify import require_signed_by


async def sign_checkpoint(checkpoint: LogCheckpoint, signer: Signer) -> SignedCheckpoint:
    """Return the checkpoint with its signature."""
    (value,) = await signer.sign_all([Claim(build_payload(checkpoint), checkpoint.digest)])
    return SignedCheckpoint(checkpoint=checkpoint, algorithm=signer.algorithm, signature=value)


def verify_checkpoint(signed: SignedCheckpoint, jwks: Mapping[str, Any]) -> None:
    """Raise SignatureInvalid unless a key of `jwks` signed this checkpoint."""
    signature = parse_signature(
        {
            "algorithm": signed.algorithm,
            "value": signed.signature,
            "signed_at": format_wire_time(signed.checkpoint.made_at),
            "signer": "",
        }
    )
    require_signed_by(signature, build_payload(signed.checkpoint), jwks)
