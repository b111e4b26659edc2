"""Parse Slack's payloads; only presses of our buttons become an `Interaction`."""

from typing import TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from placet.channels.slack.render import BUTTON_ID_PREFIX
from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import to_single_line, truncate

PLATFORM = "slack"
VIA = "slack_block_action"
MAX_NAME_LENGTH = 100
MAX_REFERENCE_LENGTH = 64

Shape = TypeVar("Shape")


class SlackTeam(Struct, frozen=True):
    """A workspace."""

    id: str = ""


class SlackUser(Struct, frozen=True):
    """A Slack user."""

    id: str
    name: str = ""
    username: str = ""
    team_id: str = ""


class SlackAction(Struct, frozen=True):
    """The button that was pressed."""

    type: str
    action_id: str = ""
    value: str = ""
    action_ts: str = ""


class SlackContainer(Struct, frozen=True):
    """The message that contains the button."""

    message_ts: str = ""
    channel_id: str = ""
    thread_ts: str = ""


class SlackInteraction(Struct, frozen=True):
    """A payload: one thing that a person did with the app's messages."""

    type: str
    user: SlackUser | None = None
    team: SlackTeam | None = None
    actions: tuple[SlackAction, ...] = ()
    container: SlackContainer | None = None


class SlackEnvelope(Struct, frozen=True):
    """A message of Socket Mode: a payload, or a message about the connection."""

    type: str
    envelope_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    reason: str = ""


def read_form(body: bytes) -> SlackInteraction | None:
    """Return the payload in a webhook's form body, or None if it cannot be parsed."""
    try:
        fields = parse_qs(body.decode("utf-8"), max_num_fields=20)
    except ValueError:
        return None
    return read_interaction(fields.get("payload", [""])[0].encode("utf-8", "replace"))


def read_interaction(raw: bytes | msgspec.Raw) -> SlackInteraction | None:
    """Return the payload, or None if it cannot be parsed."""
    return _decode(raw, SlackInteraction)


def read_envelope(raw: str | bytes) -> SlackEnvelope | None:
    """Return a message of Socket Mode, or None if it cannot be parsed."""
    return _decode(raw, SlackEnvelope)


def interactions_from_payload(payload: SlackInteraction | None) -> tuple[Interaction, ...]:
    """Return the presses of our buttons in a payload; clicks on the link button are not among them."""
    if payload is None or payload.type != "block_actions" or payload.user is None:
        return ()
    found = [_interaction_from_action(payload, payload.user, action) for action in payload.actions]
    return tuple(interaction for interaction in found if interaction is not None)


def _interaction_from_action(
    payload: SlackInteraction, user: SlackUser, action: SlackAction
) -> Interaction | None:
    is_ours = action.type == "button" and action.action_id.startswith(BUTTON_ID_PREFIX)
    if not is_ours or not 0 < len(action.value) <= MAX_REFERENCE_LENGTH:
        return None
    team_id = user.team_id or (payload.team.id if payload.team is not None else "")
    container = payload.container or SlackContainer()
    reply_to = {"channel": container.channel_id, "user": user.id, "thread_ts": container.thread_ts}
    parts = (team_id, user.id, container.message_ts, action.action_id, action.action_ts)
    interaction_id = ":".join(parts)
    if not (interaction_id.isascii() and interaction_id.isprintable()):  # the agent sends it in a header
        return None
    return Interaction(
        id=interaction_id,
        reference=action.value,
        user=InteractionUser(
            platform=PLATFORM,
            user_id=f"{team_id}:{user.id}",
            name=truncate(to_single_line(user.name or user.username), MAX_NAME_LENGTH) or None,
        ),
        via=VIA,
        reply_to={name: value for name, value in reply_to.items() if value},
    )


def _decode(raw: str | bytes | msgspec.Raw, shape: type[Shape]) -> Shape | None:
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
