"""Facts on a messenger card: which are shown, and how omitted ones are named."""

from typing import Any

import pytest

from placet.agent.card_facts import FACTS, select_facts
from placet.ports.channel import ONLY_ON_PAGE


def test_short_facts_are_shown_without_a_remark() -> None:
    context = {"price_per_day": 12, "who": "Ada", "none": None, "empty": [], "no": False, "void": ""}
    assert select_facts(context, decides=True) == (("Price per day", "12"), ("Who", "Ada"))


@pytest.mark.parametrize(
    "unseen",
    [
        {"artifact": "x" * 200},
        {"artifact": {"to": "Jo"}},
        {"items": [{"id": "a", "label": "Autumn 2019"}]},
        {"irreversible": True},
    ],
)
def test_card_with_buttons_says_what_only_the_page_shows(unseen: dict[str, Any]) -> None:
    [name] = unseen
    assert select_facts({"who": "Ada", **unseen}, decides=True) == (
        (ONLY_ON_PAGE, name.capitalize()),
        ("Who", "Ada"),
    )
    assert select_facts({"who": "Ada", **unseen}, decides=False) == (("Who", "Ada"),)


def test_omitted_facts_are_named_and_counted() -> None:
    facts = select_facts({f"fact_{number}": number + 1 for number in range(20)}, decides=True)
    assert len(facts) == FACTS + 1
    assert facts[0] == (ONLY_ON_PAGE, "Fact 6, Fact 7, Fact 8, Fact 9, Fact 10, Fact 11 and 8 more")
