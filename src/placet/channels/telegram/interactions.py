"""Parse Telegram's updates; only presses of our buttons become an `Interaction`."""

import msgspec
from msgspec import Struct, field

from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import count_utf8_bytes, to_single_line, truncate

PLATFORM = "telegram"
VIA = "telegram_inline_button"
MAX_NAME_LENGTH = 100
MAX_CALLBACK_DATA_BYTES = 64


class TelegramUser(Struct, frozen=True):
    """A Telegram user."""

    id: int
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    is_bot: bool = False

    @property
    def name(self) -> str | None:
        """The name that other people see."""
        full = to_single_line(f"{self.first_name} {self.last_name}") or to_single_line(self.username)
        return truncate(full, MAX_NAME_LENGTH) or None


class TelegramChat(Struct, frozen=True):
    """The chat that contains a message."""

    id: int


class TelegramMessage(Struct, frozen=True):
    """The message that contains the button."""

    message_id: int
    chat: TelegramChat


class TelegramCallbackQuery(Struct, frozen=True):
    """A press of a button."""

    id: str
    sender: TelegramUser = field(name="from")
    data: str | None = None
    message: TelegramMessage | None = None


class TelegramUpdate(Struct, frozen=True):
    """One event for the bot."""

    update_id: int
    callback_query: TelegramCallbackQuery | None = None


def convert_update(raw: object) -> TelegramUpdate | None:
    """Return an update of a list; for an unknown type only its number, which confirms it, or None."""
    try:
        return msgspec.convert(raw, TelegramUpdate)
    except msgspec.ValidationError:
        number = raw.get("update_id") if isinstance(raw, dict) else None
        return TelegramUpdate(update_id=number) if isinstance(number, int) else None


def decode_update(body: bytes) -> TelegramUpdate | None:
    """Return the update in a webhook body, or None if it cannot be parsed."""
    try:
        return msgspec.json.decode(body, type=TelegramUpdate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def interaction_from_update(update: TelegramUpdate | None) -> Interaction | None:
    """Return the press of a button by a person, or None for any other update."""
    query = update.callback_query if update is not None else None
    if query is None or query.sender.is_bot or not query.data:
        return None
    if count_utf8_bytes(query.data) > MAX_CALLBACK_DATA_BYTES:
        return None
    chat = {"chat_id": str(query.message.chat.id)} if query.message is not None else {}
    return Interaction(
        id=query.id,
        reference=query.data,
        user=InteractionUser(platform=PLATFORM, user_id=str(query.sender.id), name=query.sender.name),
        via=VIA,
        reply_to={"callback_query_id": query.id, **chat},
    )
