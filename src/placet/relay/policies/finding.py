"""A policy's match in a message, and its redacted form for logs and audit."""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from placet.relay.policies.binding import BindingLevel
from placet.relay.policies.policy import PolicyAction

MIN_REDACTED, PROBE_LENGTH = 3, 8
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")


class Finding(Struct, frozen=True, kw_only=True, rename="camel"):
    """One match of one policy. `start` and `end` are character offsets into the text at `path`."""

    policy_id: str
    policy_name: str
    policy_version: str
    policy_level: BindingLevel
    action: PolicyAction
    detector: str
    entity: str
    score: float
    path: str
    piece: int
    """Index of the scanned text. Several texts can share a path that was too long and was cut."""
    start: int
    end: int
    text: str
    """The matched text or its beginning, for the reviewer only."""


def redact_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the matched texts.

    Paths are redacted too: they contain names of fields, and a policy can match a name.
    """
    findings = list(findings)
    probes = {one.text[:PROBE_LENGTH] for one in findings if len(one.text) >= MIN_REDACTED}
    return [
        replace(one, text=format_mask(one.entity), path=_redact_path(one.path, probes)) for one in findings
    ]


def _redact_path(path: str, probes: Iterable[str]) -> str:
    """Return the path cut before the first probe. Probes are short because paths cut long names."""
    positions = [position for text in probes if (position := path.find(text)) >= 0]
    return path[: min(positions)] + "[MASKED]" if positions else path


def format_mask(entity: str) -> str:
    """Return the replacement for a masked text. It names the entity only if the name is a safe label."""
    return f"[MASKED:{entity}]" if _LABEL.match(entity) else "[MASKED]"


def omit_sensitive_id(id: str | None, findings: Iterable[Finding]) -> str | None:
    """Return an id that the sender chose, or None if it contains a matched text. The audit log stores it."""
    is_sensitive = id is not None and any(
        len(one.text) >= MIN_REDACTED and one.text in id for one in findings
    )
    return None if is_sensitive else id
