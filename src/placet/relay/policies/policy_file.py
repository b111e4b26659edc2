"""Parse a policy file in TOML or JSON."""

import hashlib
import tomllib
from datetime import datetime
from typing import Any

import msgspec

from placet.errors import ValidationFailed
from placet.relay.policies.policy import Policy, PolicyDraft, create_policy, parse_policy_draft

_encode = msgspec.json.Encoder(order="sorted").encode


def parse_policy_file(content: bytes, *, name: str, is_toml: bool, now: datetime) -> list[Policy]:
    """The policies of a file: one, a list, or a table with `policies`; raises `ValidationFailed`.

    The id of each is made of what it says, so that one id never means two things: a file has no versions.
    """
    try:
        raw: Any = tomllib.loads(content.decode()) if is_toml else msgspec.json.decode(content)
    except (ValueError, RecursionError) as misfit:
        raise ValidationFailed(f"{name} is not {'TOML' if is_toml else 'JSON'}: {misfit}.") from misfit
    if isinstance(raw, dict) and "policies" in raw:
        raw = raw["policies"]
    listed = raw if isinstance(raw, list) else [raw]
    if not listed:
        raise ValidationFailed(f"{name} holds no policies.")
    drafts = (parse_policy_draft(one, f"policies[{place}]") for place, one in enumerate(listed))
    return [create_policy(draft, policy_id=_derive_policy_id(draft), now=now) for draft in drafts]


def _derive_policy_id(draft: PolicyDraft) -> str:
    return f"file-{hashlib.sha256(_encode(draft)).hexdigest()[:16]}"
