"""A review type that only these tests register: a person gives stars."""

from placet.reviews.declaration import ActionDeclaration, TypeDeclaration
from placet.text.wording import message
from tests.reviews.rating.ask_command import ASK_COMMAND
from tests.reviews.rating.example import EXAMPLE

RATING = TypeDeclaration(
    name="x-rating",
    type="x-rating",
    package="tests.reviews.rating",
    title="Rating",
    question="{service} asks you for a rating",
    if_answered=("When you rate", "Your stars are counted."),
    actions=(
        ActionDeclaration(
            name="rate",
            label="Give these stars",
            answered="Rated",
            afterwards="The stars are counted.",
            guidance="Use data.stars.",
            is_affirmative=True,
            tone="positive",
        ),
        ActionDeclaration(
            name="abstain",
            label="Do not rate",
            answered="Not rated",
            afterwards="Nothing is counted.",
            guidance="Do not count it.",
            is_inline=True,
        ),
    ),
    link_label="Open and rate",
    field_labels={"stars": message("Number of stars")},
    template="rating/page.html",
    example=EXAMPLE,
    requires_answer=True,
    command=ASK_COMMAND,
)

DECLARATION = RATING
