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
    """Return the policies of a file: one policy, a list, or a table with `policies`.

    Raises `ValidationFailed` if the file is invalid. Each id is derived from the policy's content, because a
    file has no versions: a changed policy gets a new id.
    """
    try:
        raw: Any = tomllib.loads(content.decode()) if is_toml else msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:
        raise ValidationFailed(f"{name} is not valid {'TOML' if is_toml else 'JSON'}: {error}.") from error
    if isinstance(raw, dict) and "policies" in raw:
        raw = raw["policies"]
    entries = raw if isinstance(raw, list) else [raw]
    if not entries:
        raise ValidationFailed(f"{name} contains no policies. Add at least one.")
    drafts = (parse_policy_draft(one, f"policies[{index}]") for index, one in enumerate(entries))
    return [create_policy(draft, policy_id=_derive_policy_id(draft), now=now) for draft in drafts]


def _derive_policy_id(draft: PolicyDraft) -> str:
    return f"file-{hashlib.sha256(_encode(draft)).hexdigest()[:16]}"
