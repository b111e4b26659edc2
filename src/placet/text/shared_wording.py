"""Texts that pages and messengers both show. What belongs to a review type is declared by the type."""

from collections.abc import Mapping

from placet.text.wording import phrase

OPEN_REVIEW = "Open the review"
ASKS_FOR_DECISION = phrase("{service} asks for your decision")

IF_UNANSWERED: Mapping[str, str] = {
    "skip": phrase("This step is left out."),
    "reject": phrase("It counts as a no."),
    "abort": phrase("The agent is told to stop."),
    "approve": phrase("It counts as a yes, because {service} asked for that."),
}
"""What comes of no answer, by the case's default action."""


def describe_no_answer(default_action: str) -> str:
    """Return what happens without an answer, as the end of a sentence in a messenger."""
    known = IF_UNANSWERED.get(default_action, "Nothing is decided.")
    sentence = known.partition(", because ")[0].rstrip(".")
    return f"{sentence[:1].lower()}{sentence[1:]}."
