"""The declaration of held messages: an approval whose context holds a message that a relay holds."""

from placet.reviews.approval.declaration import APPROVAL, APPROVE, REJECT
from placet.reviews.declaration import TypeDeclaration
from placet.reviews.held_messages.example import EXAMPLE
from placet.text.wording import phrase

HELD_MESSAGES = TypeDeclaration(
    name="held_message",
    type=APPROVAL.type,
    package="placet.reviews.held_messages",
    title=phrase("Held message"),
    actions=(APPROVE, REJECT),
    template="held_messages/page.html",
    example=EXAMPLE,
    entry_point="relay",
    requires_answer=True,
)
