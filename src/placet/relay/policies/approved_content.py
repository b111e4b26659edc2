"""The digests by which content is recognised that a person has approved."""

import hashlib

from placet.relay.policies.finding import Finding


def digest_text(text: str) -> str:
    """Return the digest by which an approved text is recognised."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_match(finding: Finding) -> str | None:
    """Return the digest by which an approved match of a policy is recognised in other texts.

    It is None if the finding has only the beginning of the match, or no text.
    """
    if not finding.text or len(finding.text) != finding.end - finding.start:
        return None
    return digest_text(f"\x00match\x00{finding.policy_id}\x00{finding.text}")


def digest_file(content: str) -> str:
    """Return the digest by which an approved file is recognised. It never equals the digest of a text."""
    return digest_text(f"\x00file\x00{content}")
