"""Parse WhatsApp's notifications: presses of our buttons, and the status of our messages."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import count_utf16_units, to_single_line, truncate

PLATFORM = "whatsapp"
VIA = "whatsapp_reply_button"
MAX_NAME_LENGTH = 100
MAX_BUTTON_ID_LENGTH = 256

T = TypeVar("T")


class WhatsAppButtonReply(Struct, frozen=True):
    """The button that was pressed."""

    id: str


class WhatsAppInteractive(Struct, frozen=True):
    """The reply to an interactive message."""

    type: str = ""
    button_reply: WhatsAppButtonReply | None = None


class WhatsAppMessage(Struct, frozen=True):
    """A message by a person."""

    id: str
    type: str = ""
    sender: str = field(name="from", default="")
    """The phone number; people with a user name may hide it."""
    from_user_id: str = ""
    """The id of a person whose number is hidden."""
    interactive: WhatsAppInteractive | None = None


class WhatsAppProfile(Struct, frozen=True):
    """The profile of a person."""

    name: str = ""


class WhatsAppContact(Struct, frozen=True):
    """The sender of a message."""

    wa_id: str = ""
    user_id: str = ""
    profile: WhatsAppProfile = WhatsAppProfile()


class WhatsAppDeliveryError(Struct, frozen=True):
    """The reason why a message was not delivered."""

    code: int
    title: str = ""


class WhatsAppStatus(Struct, frozen=True):
    """The delivery status of one of our messages."""

    id: str
    status: str = ""
    errors: tuple[WhatsAppDeliveryError, ...] = ()


class WhatsAppMetadata(Struct, frozen=True):
    """The phone number that a change concerns."""

    phone_number_id: str


class WhatsAppValue(Struct, frozen=True):
    """The events of one phone number."""

    metadata: WhatsAppMetadata
    contacts: tuple[WhatsAppContact, ...] = ()
    messages: tuple[msgspec.Raw, ...] = ()
    statuses: tuple[msgspec.Raw, ...] = ()


class WhatsAppChange(Struct, frozen=True):
    """One change in a notification."""

    value: msgspec.Raw
    field: str = ""


class WhatsAppEntry(Struct, frozen=True):
    """The changes of one account."""

    changes: tuple[WhatsAppChange, ...] = ()


class WhatsAppNotification(Struct, frozen=True):
    """One webhook body; WhatsApp may repeat it for days and in any order."""

    object: str = ""
    entry: tuple[WhatsAppEntry, ...] = ()


def read_values(body: bytes, *, phone_number_id: str) -> list[WhatsAppValue]:
    """Return the events of this phone number; an empty list for anything else."""
    notification = _decode(body, WhatsAppNotification)
    if notification is None or notification.object != "whatsapp_business_account":
        return []
    changes = [change for entry in notification.entry for change in entry.changes]
    values = [_decode(change.value, WhatsAppValue) for change in changes if change.field == "messages"]
    return [value for value in values if value and value.metadata.phone_number_id == phone_number_id]


def interactions_from_value(value: WhatsAppValue) -> Iterator[Interaction]:
    """Yield the presses of our buttons."""
    for raw in value.messages:
        message = _decode(raw, WhatsAppMessage)
        interaction = _interaction_from_message(message, value.contacts) if message is not None else None
        if interaction is not None:
            yield interaction


def read_statuses(value: WhatsAppValue) -> Iterator[WhatsAppStatus]:
    """Yield the delivery status of our messages."""
    for raw in value.statuses:
        status = _decode(raw, WhatsAppStatus)
        if status is not None:
            yield status


def _interaction_from_message(
    message: WhatsAppMessage, contacts: tuple[WhatsAppContact, ...]
) -> Interaction | None:
    interactive = message.interactive
    reply = interactive.button_reply if interactive is not None else None
    person = message.sender or message.from_user_id
    if message.type != "interactive" or reply is None or not person or not message.id:
        return None
    if not 0 < count_utf16_units(reply.id) <= MAX_BUTTON_ID_LENGTH:
        return None
    return Interaction(
        id=message.id,
        reference=reply.id,
        user=InteractionUser(platform=PLATFORM, user_id=person, name=_find_name(person, contacts)),
        via=VIA,
        reply_to={"to": person, "message_id": message.id},
    )


def _find_name(person: str, contacts: tuple[WhatsAppContact, ...]) -> str | None:
    names = [one.profile.name for one in contacts if person in (one.wa_id, one.user_id)]
    return truncate(to_single_line(names[0]), MAX_NAME_LENGTH) or None if names else None


def _decode(raw: bytes | msgspec.Raw, type: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
