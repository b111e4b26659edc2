"""The declaration for all custom types."""

from placet.reviews.custom.example import EXAMPLE
from placet.reviews.declaration import TypeDeclaration

CUSTOM = TypeDeclaration(
    name="x-",
    type="x-",
    package="placet.reviews.custom",
    title="",
    actions=(),
    template="custom/page.html",
    example=EXAMPLE,
    names_requiring_answer=frozenset({"x-tool-approval"}),
)

DECLARATION = CUSTOM
