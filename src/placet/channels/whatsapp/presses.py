"""WhatsApp's webhook notifications read as presses and failures; whatever else people write is neither."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from placet.ports.channel import Press, Presser
from placet.text.truncation import count_utf16_units, to_single_line, truncate

PLATFORM = "whatsapp"
VIA = "whatsapp_reply_button"
LONGEST_NAME = 100
MAX_BUTTON_ID = 256

T = TypeVar("T")


class ButtonReply(Struct, frozen=True):
    """The button that was pressed."""

    id: str


class Interactive(Struct, frozen=True):
    """What a person did with an interactive message."""

    type: str = ""
    button_reply: ButtonReply | None = None


class Message(Struct, frozen=True):
    """One thing that a person sent."""

    id: str
    type: str = ""
    sender: str = field(name="from", default="")
    """The wa_id, which is the phone number; people with a user name may hide it."""
    from_user_id: str = ""
    """What stands for a person whose number is hidden."""
    interactive: Interactive | None = None


class Profile(Struct, frozen=True):
    """What a person calls themselves."""

    name: str = ""


class Contact(Struct, frozen=True):
    """Who sent something."""

    wa_id: str = ""
    user_id: str = ""
    profile: Profile = Profile()


class Failure(Struct, frozen=True):
    """Why a message of ours did not arrive."""

    code: int
    title: str = ""


class Status(Struct, frozen=True):
    """What became of a message of ours."""

    id: str
    status: str = ""
    errors: tuple[Failure, ...] = ()


class Metadata(Struct, frozen=True):
    """Which of our numbers this is about."""

    phone_number_id: str


class Value(Struct, frozen=True):
    """What happened to one number of ours."""

    metadata: Metadata
    contacts: tuple[Contact, ...] = ()
    messages: tuple[msgspec.Raw, ...] = ()
    statuses: tuple[msgspec.Raw, ...] = ()


class Change(Struct, frozen=True):
    """One part of a notification."""

    value: msgspec.Raw
    field: str = ""


class Entry(Struct, frozen=True):
    """What concerns one account."""

    changes: tuple[Change, ...] = ()


class Notification(Struct, frozen=True):
    """One webhook call; it may carry many things, in any order, again and again for days."""

    object: str = ""
    entry: tuple[Entry, ...] = ()


def read_values(body: bytes, *, phone_number_id: str) -> list[Value]:
    """What happened to this number of ours; nothing for what cannot be read or concerns another number."""
    notification = _read(body, Notification)
    if notification is None or notification.object != "whatsapp_business_account":
        return []
    changes = [change for entry in notification.entry for change in entry.changes]
    values = [_read(change.value, Value) for change in changes if change.field == "messages"]
    return [value for value in values if value and value.metadata.phone_number_id == phone_number_id]


def presses_of(value: Value) -> Iterator[Press]:
    """The presses of our buttons."""
    for raw in value.messages:
        message = _read(raw, Message)
        press = _press_of(message, value.contacts) if message is not None else None
        if press is not None:
            yield press


def statuses_of(value: Value) -> Iterator[Status]:
    """What became of our messages."""
    for raw in value.statuses:
        status = _read(raw, Status)
        if status is not None:
            yield status


def _press_of(message: Message, contacts: tuple[Contact, ...]) -> Press | None:
    interactive = message.interactive
    reply = interactive.button_reply if interactive is not None else None
    person = message.sender or message.from_user_id
    if message.type != "interactive" or reply is None or not person or not message.id:
        return None
    if not 0 < count_utf16_units(reply.id) <= MAX_BUTTON_ID:
        return None
    return Press(
        id=message.id,
        reference=reply.id,
        presser=Presser(platform=PLATFORM, user_id=person, name=_name(person, contacts)),
        via=VIA,
        reply_to={"to": person, "message_id": message.id},
    )


def _name(person: str, contacts: tuple[Contact, ...]) -> str | None:
    names = [one.profile.name for one in contacts if person in (one.wa_id, one.user_id)]
    return truncate(to_single_line(names[0]), LONGEST_NAME) or None if names else None


def _read(raw: bytes | msgspec.Raw, type: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
