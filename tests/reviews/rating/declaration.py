"""A review type that only these tests register: a person gives stars."""

from placet.reviews.declaration import ActionDeclaration, CommandDeclaration, CommandOption, TypeDeclaration

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
            is_inline=True,
            tone="positive",
        ),
        ActionDeclaration(
            name="abstain",
            label="Do not rate",
            answered="Not rated",
            afterwards="Nothing is counted.",
            guidance="Do not count it.",
            is_against=True,
            is_inline=True,
        ),
    ),
    link_label="Open and rate",
    template="custom/page.html",
    example={"type": "x-rating", "prompt": "How was it?", "context": {"subject": "The soup"}},
    command=CommandDeclaration(
        help="Ask a person for a rating.",
        options=(CommandOption(flag="--subject", argument="subject", metavar="TEXT", help="What is rated."),),
        build_context=lambda subject: {"subject": subject} if subject else {},
    ),
)
