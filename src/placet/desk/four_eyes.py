"""The four-eyes rule: the principal and the people who asked cannot approve.

A review link and a press in a messenger prove no identity, and the agent that asked has both. So under this
rule an approval counts only from a person that the server knows: by an inbox key, by the relay's approvals
API, or by the service that embeds Placet.
"""

from placet.cases.case import Case, Offer
from placet.desk.answer import Answer
from placet.errors import SecondPersonRequired
from placet.text.lookalikes import fold_name

REFUSALS = frozenset({"abort", "cancel", "reject"})
"""The actions that need no second person, unless a custom type declares them affirmative."""


def require_second_person(case: Case, offer: Offer, answer: Answer) -> None:
    """Raise SecondPersonRequired if this may be an approval by a person who asked, or an unknown one."""
    if not offer.four_eyes:
        return
    if answer.action in REFUSALS and answer.action not in offer.affirmative_actions:
        return
    askers = _normalize_all(case.owner, *offer.asked_by)
    person = answer.responded_by
    names = _normalize_all(person.name, person.email) if person is not None else set()
    if not names or not askers:
        raise SecondPersonRequired()
    if names & askers:
        raise SecondPersonRequired("You asked for this, so another person must approve it.")


def _normalize_all(*names: str | None) -> set[str]:
    """Return the names without differences that a person could miss."""
    return {fold_name(name or "") for name in names} - {""}
