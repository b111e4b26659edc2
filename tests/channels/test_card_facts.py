"""Facts on a messenger card: which are shown, and how omitted ones are named."""

from typing import Any

import pytest

from placet.channels.card_facts import FACTS, select_facts
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


@pytest.mark.parametrize(
    "name",
    [
        *(
            "says_it_is",
            "SAYS IT IS",
            "Says it is:",
            " says  it is ",
            "says_it_\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}s",
        ),
        *(
            "only_on_the_page",
            "Only on the page.",
            "only\non_the_page",
            "\N{FULLWIDTH LATIN SMALL LETTER O}nly on the page",
        ),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("decides", [True, False])
def test_a_field_of_the_caller_cannot_pass_for_a_fact_of_ours(name: str, decides: bool) -> None:
    facts = select_facts({name: "Nothing", "who": "Ada"}, decides=decides)
    assert facts[-1:] == (("Who", "Ada"),)
    assert [value for _, value in facts if value == "Nothing"] == []
    assert len(facts) == 1 + decides


def test_omitted_facts_are_named_and_counted() -> None:
    facts = select_facts({f"fact_{number}": number + 1 for number in range(20)}, decides=True)
    assert len(facts) == FACTS + 1
    assert facts[0] == (ONLY_ON_PAGE, "Fact 6, Fact 7, Fact 8, Fact 9, Fact 10, Fact 11 and 8 more")


def test_entries_of_a_list_are_shown_one_by_one_before_the_other_facts() -> None:
    hall = {"id": "b", "title": " ", "label": "Hall"}
    options = [{"id": "a", "title": "Loft"}, hall, {"id": "c", "title": ["x"]}, "Garden"]
    facts = select_facts({"seats": 3, "options": options}, decides=False, lists=("options", "items"))
    assert facts == (
        ("Choice 1", "Loft"),
        ("Choice 2", "Hall"),
        ("Choice 3", "c"),
        ("Choice 4", "Garden"),
        ("Seats", "3"),
    )


def test_entries_beyond_the_first_are_counted() -> None:
    facts = select_facts({"options": [str(n) for n in range(12)]}, decides=False, lists=("options",))
    assert facts[4:] == (("Choice 5", "4"), (ONLY_ON_PAGE, "7 more"))


@pytest.mark.parametrize("entries", [None, [], {}, "Loft", 7, True])
def test_what_is_no_list_shows_no_entries(entries: Any) -> None:
    shown = select_facts({"options": entries}, decides=False, lists=("options",))
    assert not any(name == "Choice 1" for name, _ in shown)


@pytest.mark.parametrize(
    "entry", [None, [], {}, " ", {"title": " "}, {"title": ["x"]}, {"title": {"a": 1}}, ["x"]]
)
def test_entry_without_a_title_is_shown_as_such(entry: Any) -> None:
    assert select_facts({"options": [entry]}, decides=False, lists=("options",)) == (
        ("Choice 1", "(no title)"),
    )
