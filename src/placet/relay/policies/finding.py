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
    """One match of one policy: `start` and `end` are character offsets into the text at `path`."""

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
    """Which of the scanned texts it is in; several may share a path that was too long to write out."""
    start: int
    end: int
    text: str
    """What matched, or the beginning of it: for the reviewer only."""

    def without_text(self) -> "Finding":
        """The same for logs, audit and callers, who must not learn what was found."""
        return redact_findings([self])[0]


def redact_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The same for whoever must not learn what was found, also not from a path: names can be found too."""
    findings = list(findings)
    told = {one.text[:PROBE_LENGTH] for one in findings if len(one.text) >= MIN_REDACTED}
    return [replace(one, text=format_mask(one.entity), path=_redact_path(one.path, told)) for one in findings]


def _redact_path(path: str, told: Iterable[str]) -> str:
    """The path up to where it begins to tell: a long name is cut in it, and so may a match be."""
    places = [place for text in told if (place := path.find(text)) >= 0]
    return path[: min(places)] + "[MASKED]" if places else path


def format_mask(entity: str) -> str:
    """What stands in place of a masked text; a name that would not be safe there is left out."""
    return f"[MASKED:{entity}]" if _LABEL.match(entity) else "[MASKED]"


def omit_sensitive_id(id: str | None, findings: Iterable[Finding]) -> str | None:
    """An id of its sender's choice as the audit may have it: none in which something was found."""
    found = id is not None and any(len(one.text) >= MIN_REDACTED and one.text in id for one in findings)
    return None if found else id
