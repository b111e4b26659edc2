"""Telegram's updates read as presses; whatever else people do with the bot is no press."""

import msgspec
from msgspec import Struct, field

from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import count_utf8_bytes, to_single_line, truncate

PLATFORM = "telegram"
VIA = "telegram_inline_button"
MAX_NAME = 100
MAX_CALLBACK_DATA_BYTES = 64


class TelegramUser(Struct, frozen=True):
    """Who pressed, as Telegram vouches for it."""

    id: int
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    is_bot: bool = False

    @property
    def name(self) -> str | None:
        """What others see of this person."""
        full = to_single_line(f"{self.first_name} {self.last_name}") or to_single_line(self.username)
        return truncate(full, MAX_NAME) or None


class TelegramChat(Struct, frozen=True):
    """Where a message is."""

    id: int


class TelegramMessage(Struct, frozen=True):
    """The message under which a button was."""

    message_id: int
    chat: TelegramChat


class TelegramCallbackQuery(Struct, frozen=True):
    """A press of a button."""

    id: str
    sender: TelegramUser = field(name="from")
    data: str | None = None
    message: TelegramMessage | None = None


class TelegramUpdate(Struct, frozen=True):
    """One thing that happened to the bot."""

    update_id: int
    callback_query: TelegramCallbackQuery | None = None


def convert_update(raw: object) -> TelegramUpdate | None:
    """One update of a list; of what we cannot read its number, which confirms it, or None."""
    try:
        return msgspec.convert(raw, TelegramUpdate)
    except msgspec.ValidationError:
        number = raw.get("update_id") if isinstance(raw, dict) else None
        return TelegramUpdate(update_id=number) if isinstance(number, int) else None


def decode_update(body: bytes) -> TelegramUpdate | None:
    """The update in a webhook call, or None for what is none that we can read."""
    try:
        return msgspec.json.decode(body, type=TelegramUpdate)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def interaction_from_update(update: TelegramUpdate | None) -> Interaction | None:
    """The press in an update, if it is one of our buttons and a person pressed it."""
    query = update.callback_query if update is not None else None
    if query is None or query.sender.is_bot or not query.data:
        return None
    if count_utf8_bytes(query.data) > MAX_CALLBACK_DATA_BYTES:
        return None
    place = {"chat_id": str(query.message.chat.id)} if query.message is not None else {}
    return Interaction(
        id=query.id,
        reference=query.data,
        user=InteractionUser(platform=PLATFORM, user_id=str(query.sender.id), name=query.sender.name),
        via=VIA,
        reply_to={"callback_query_id": query.id, **place},
    )
