"""The interface through which inspection holds messages."""

import hashlib
from typing import Protocol

from placet.relay.inspection.message_inspector import AnswerVerdict, InspectionRequest, RefuseVerdict
from placet.relay.policies.evaluation import Evaluation
from placet.relay.policies.finding import Finding
from placet.relay.policies.policy import Leg


class MessageHolder(Protocol):
    """Holds messages until a person decides."""

    async def hold(
        self, leg: Leg, request: InspectionRequest, evaluation: Evaluation
    ) -> AnswerVerdict | RefuseVerdict:
        """Store a hold. Return the verdict for the caller, which gets a task to wait for.

        The findings refer to the texts of the message; a stream is one merged response.
        """
        ...

    async def list_approved(self, request: InspectionRequest) -> frozenset[str]:
        """Return the digests of the texts, files and matches that a person has approved in this task.

        Approved texts are not held again in `history` or on a later leg. Other findings still count.
        """
        ...


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
