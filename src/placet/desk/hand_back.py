"""When handing a case back ends it (ruling 5)."""

from placet.cases.case import Case, Offer

LINK_ACTOR = "link:"
"""The prefix of the actor of a person who came by a review link."""


def ends_case(case: Case, offer: Offer, actor: str) -> bool:
    """Return whether the case is cancelled when this person hands it back.

    The owner must have named one person, and there must be no second link: then nobody else can decide. A
    person in the inbox is not the one who was named, so their step never ends a case.
    """
    return offer.only_reviewer is not None and len(case.review_digests) == 1 and actor.startswith(LINK_ACTOR)
