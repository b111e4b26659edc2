"""Parse Discord's interactions; only presses of our buttons become an `Interaction`."""

from typing import Any

import msgspec
from msgspec import Struct

from placet.channels.discord.render import BUTTON, EPHEMERAL
from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import to_single_line, truncate

PLATFORM = "discord"
VIA = "discord_component"
MAX_NAME_LENGTH = 100
MAX_CUSTOM_ID_LENGTH = 100

PING, COMMAND, COMPONENT, AUTOCOMPLETE, MODAL = 1, 2, 3, 4, 5
MESSAGE = 4
PONG: dict[str, Any] = {"type": 1}
DEFERRED_UPDATE: dict[str, Any] = {"type": 6}
NO_CHOICES: dict[str, Any] = {"type": 8, "data": {"choices": []}}
ONLY_BUTTONS: dict[str, Any] = {
    "type": MESSAGE,
    "data": {"content": "This bot asks questions; press their buttons.", "flags": EPHEMERAL},
}


class DiscordUser(Struct, frozen=True):
    """A Discord user."""

    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False


class DiscordMember(Struct, frozen=True):
    """A user as a member of a server."""

    user: DiscordUser
    nick: str | None = None


class DiscordComponentData(Struct, frozen=True):
    """The component that was used."""

    custom_id: str = ""
    component_type: int = 0


class DiscordMessage(Struct, frozen=True):
    """The message that contains the component."""

    id: str


class DiscordInteraction(Struct, frozen=True):
    """One thing that a person did with the bot."""

    id: str
    type: int
    application_id: str = ""
    token: str = ""
    data: DiscordComponentData | None = None
    member: DiscordMember | None = None
    user: DiscordUser | None = None
    channel_id: str | None = None
    message: DiscordMessage | None = None


def read_interaction(body: bytes) -> DiscordInteraction | None:
    """Return the interaction in a request body, or None if it cannot be parsed."""
    try:
        return msgspec.json.decode(body, type=DiscordInteraction)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def build_response(interaction: DiscordInteraction | None) -> dict[str, Any]:
    """Return the response that Discord expects within three seconds."""
    responses = {PING: PONG, COMPONENT: DEFERRED_UPDATE, AUTOCOMPLETE: NO_CHOICES}
    return responses.get(interaction.type if interaction is not None else COMMAND, ONLY_BUTTONS)


def interaction_from_component(interaction: DiscordInteraction | None) -> Interaction | None:
    """Return the press of a button by a person, or None for any other interaction."""
    if interaction is None or interaction.type != COMPONENT or interaction.data is None:
        return None
    member, data = interaction.member, interaction.data
    user = member.user if member is not None else interaction.user
    if (
        user is None
        or user.bot
        or data.component_type != BUTTON
        or not 0 < len(data.custom_id) <= MAX_CUSTOM_ID_LENGTH
    ):
        return None
    name = (member.nick if member is not None else None) or user.global_name or user.username
    channel = {"channel_id": interaction.channel_id} if interaction.channel_id else {}
    message = {"message_id": interaction.message.id} if interaction.message is not None else {}
    return Interaction(
        id=interaction.id,
        reference=data.custom_id,
        user=InteractionUser(
            platform=PLATFORM, user_id=user.id, name=truncate(to_single_line(name), MAX_NAME_LENGTH) or None
        ),
        via=VIA,
        reply_to={
            "application_id": interaction.application_id,
            "token": interaction.token,
            **channel,
            **message,
        },
    )
