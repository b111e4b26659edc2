"""The declaration of held messages: an approval whose context holds a message that a relay holds."""

from placet.reviews.approval.declaration import APPROVAL, APPROVE, REJECT
from placet.reviews.declaration import TypeDeclaration
from placet.reviews.held_messages.example import EXAMPLE
from placet.text.wording import message, phrase

HELD_MESSAGES = TypeDeclaration(
    name="held_message",
    type=APPROVAL.type,
    package="placet.reviews.held_messages",
    title=phrase("Held message"),
    actions=(APPROVE, REJECT),
    field_labels={"message": message("Your message")},
    template="held_messages/page.html",
    decided_template="held_messages/decided.html",
    styles=("58-held.css",),
    example=EXAMPLE,
    entry_point="relay",
    is_reserved=True,
    requires_answer=True,
)

DECLARATION = HELD_MESSAGES
