"""A Hypothesis strategy for cards."""

from hypothesis import strategies as st

from placet.ports.channel import Button, Card
from placet.testing.platforms import HIDDEN, MARKUP, REVIEW_URL, sample_card

# Lone surrogates too: JSON can carry them.
TEXT = st.one_of(
    st.text(st.characters(codec=None), max_size=80),
    st.text(st.sampled_from("*_`<>&|[]()\\~#@:- \n\u202e🤖é"), max_size=80),
    st.sampled_from([MARKUP, HIDDEN, "", "\n", "…", "a" * 3000, "<&*" * 2000, "👩‍💻" * 2000, "1. x\n" * 900]),
)
TYPES = st.sampled_from(["approval", "selection", "input", "confirmation", "escalation", "x-vote", "odd"])
LINKS = st.sampled_from(
    [
        REVIEW_URL,
        "http://localhost:8400/review/1?token=t",
        "http://[::1]:8400/review/1?token=t",
        f"https://acme.example/{'x' * 600}?token=t",
    ]
)


@st.composite
def cards(draw: st.DrawFn) -> Card:
    labels = draw(st.lists(st.tuples(TEXT, TEXT), max_size=30))
    buttons = tuple(
        Button(action=action, label=label, reference=f"h1.{number}")
        for number, (action, label) in enumerate(labels)
    )
    return sample_card(
        draw(TYPES),
        prompt=draw(TEXT),
        message=draw(TEXT),
        source=draw(TEXT),
        default_action=draw(TEXT),
        review_url=draw(LINKS),
        buttons=buttons,
        facts=tuple(draw(st.lists(st.tuples(TEXT, TEXT), max_size=12))),
        is_reminder=draw(st.booleans()),
    )
