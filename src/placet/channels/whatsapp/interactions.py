"""WhatsApp's webhook notifications read as presses and failures; whatever else people write is neither."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import count_utf16_units, to_single_line, truncate

PLATFORM = "whatsapp"
VIA = "whatsapp_reply_button"
MAX_NAME = 100
MAX_BUTTON_ID = 256

T = TypeVar("T")


class WhatsAppButtonReply(Struct, frozen=True):
    """The button that was pressed."""

    id: str


class WhatsAppInteractive(Struct, frozen=True):
    """What a person did with an interactive message."""

    type: str = ""
    button_reply: WhatsAppButtonReply | None = None


class WhatsAppMessage(Struct, frozen=True):
    """One thing that a person sent."""

    id: str
    type: str = ""
    sender: str = field(name="from", default="")
    """The wa_id, which is the phone number; people with a user name may hide it."""
    from_user_id: str = ""
    """What stands for a person whose number is hidden."""
    interactive: WhatsAppInteractive | None = None


class WhatsAppProfile(Struct, frozen=True):
    """What a person calls themselves."""

    name: str = ""


class WhatsAppContact(Struct, frozen=True):
    """Who sent something."""

    wa_id: str = ""
    user_id: str = ""
    profile: WhatsAppProfile = WhatsAppProfile()


class WhatsAppDeliveryError(Struct, frozen=True):
    """Why a message of ours did not arrive."""

    code: int
    title: str = ""


class WhatsAppStatus(Struct, frozen=True):
    """What became of a message of ours."""

    id: str
    status: str = ""
    errors: tuple[WhatsAppDeliveryError, ...] = ()


class WhatsAppMetadata(Struct, frozen=True):
    """Which of our numbers this is about."""

    phone_number_id: str


class WhatsAppValue(Struct, frozen=True):
    """What happened to one number of ours."""

    metadata: WhatsAppMetadata
    contacts: tuple[WhatsAppContact, ...] = ()
    messages: tuple[msgspec.Raw, ...] = ()
    statuses: tuple[msgspec.Raw, ...] = ()


class WhatsAppChange(Struct, frozen=True):
    """One part of a notification."""

    value: msgspec.Raw
    field: str = ""


class WhatsAppEntry(Struct, frozen=True):
    """What concerns one account."""

    changes: tuple[WhatsAppChange, ...] = ()


class WhatsAppNotification(Struct, frozen=True):
    """One webhook call; it may carry many things, in any order, again and again for days."""

    object: str = ""
    entry: tuple[WhatsAppEntry, ...] = ()


def read_values(body: bytes, *, phone_number_id: str) -> list[WhatsAppValue]:
    """What happened to this number of ours; nothing for what cannot be read or concerns another number."""
    notification = _decode(body, WhatsAppNotification)
    if notification is None or notification.object != "whatsapp_business_account":
        return []
    changes = [change for entry in notification.entry for change in entry.changes]
    values = [_decode(change.value, WhatsAppValue) for change in changes if change.field == "messages"]
    return [value for value in values if value and value.metadata.phone_number_id == phone_number_id]


def interactions_from_value(value: WhatsAppValue) -> Iterator[Interaction]:
    """The presses of our buttons."""
    for raw in value.messages:
        message = _decode(raw, WhatsAppMessage)
        interaction = _interaction_from_message(message, value.contacts) if message is not None else None
        if interaction is not None:
            yield interaction


def read_statuses(value: WhatsAppValue) -> Iterator[WhatsAppStatus]:
    """What became of our messages."""
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
    if not 0 < count_utf16_units(reply.id) <= MAX_BUTTON_ID:
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
    return truncate(to_single_line(names[0]), MAX_NAME) or None if names else None


def _decode(raw: bytes | msgspec.Raw, type: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
