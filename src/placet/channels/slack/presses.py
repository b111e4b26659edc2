"""Slack's interactions read as presses; whatever else people do with the app is no press."""

import hmac
from hashlib import sha256
from typing import TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from placet.channels.slack.render import PRESS_PREFIX
from placet.errors import SignatureInvalid
from placet.ports.channel import Call, Press, Presser
from placet.text.truncation import to_single_line, truncate

PLATFORM = "slack"
VIA = "slack_block_action"
SIGNED_FOR_S = 300
"""How far the moment in a signature may be from now."""
LONGEST_NAME = 100
LONGEST_REFERENCE = 64

Shape = TypeVar("Shape")


class Team(Struct, frozen=True):
    """A workspace."""

    id: str = ""


class User(Struct, frozen=True):
    """Who pressed, as Slack vouches for it."""

    id: str
    name: str = ""
    username: str = ""
    team_id: str = ""


class Action(Struct, frozen=True):
    """One button."""

    type: str
    action_id: str = ""
    value: str = ""
    action_ts: str = ""


class Container(Struct, frozen=True):
    """The message in which the button was."""

    message_ts: str = ""
    channel_id: str = ""
    thread_ts: str = ""


class Interaction(Struct, frozen=True):
    """One thing that a person did with the app's messages."""

    type: str
    user: User | None = None
    team: Team | None = None
    actions: tuple[Action, ...] = ()
    container: Container | None = None


class Envelope(Struct, frozen=True):
    """A message of Socket Mode: an interaction, or a word about the connection itself."""

    type: str
    envelope_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    reason: str = ""


def check_signature(call: Call, secret: str, now: float) -> None:
    """Raises SignatureInvalid unless Slack signed this very body within the last minutes."""
    stamp = call.headers.get("x-slack-request-timestamp", "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):
        raise SignatureInvalid("This call does not say when it was signed.")
    if abs(now - int(stamp)) > SIGNED_FOR_S:
        raise SignatureInvalid("This call was signed too long ago.")
    signed = b"v0:" + stamp.encode() + b":" + call.body
    expected = "v0=" + hmac.new(secret.encode(), signed, sha256).hexdigest()
    given = call.headers.get("x-slack-signature", "")
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise SignatureInvalid("Slack did not sign this call.")


def read_form(body: bytes) -> Interaction | None:
    """The interaction in a webhook call, or None for what is none that we can read."""
    try:
        fields = parse_qs(body.decode("utf-8"), max_num_fields=20)
    except ValueError:
        return None
    return read_interaction(fields.get("payload", [""])[0].encode("utf-8", "replace"))


def read_interaction(raw: bytes | msgspec.Raw) -> Interaction | None:
    """An interaction, or None for what is none that we can read."""
    return _read(raw, Interaction)


def read_envelope(raw: str | bytes) -> Envelope | None:
    """A message of Socket Mode, or None for what is none that we can read."""
    return _read(raw, Envelope)


def presses_of(interaction: Interaction | None) -> tuple[Press, ...]:
    """The presses of our buttons in an interaction; a click on the link comes in too, and is none."""
    if interaction is None or interaction.type != "block_actions" or interaction.user is None:
        return ()
    found = [_press(interaction, interaction.user, action) for action in interaction.actions]
    return tuple(press for press in found if press is not None)


def _press(interaction: Interaction, user: User, action: Action) -> Press | None:
    ours = action.type == "button" and action.action_id.startswith(PRESS_PREFIX)
    if not ours or not 0 < len(action.value) <= LONGEST_REFERENCE:
        return None
    team_id = user.team_id or (interaction.team.id if interaction.team is not None else "")
    place = interaction.container or Container()
    reply_to = {"channel": place.channel_id, "user": user.id, "thread_ts": place.thread_ts}
    press_id = ":".join((team_id, user.id, place.message_ts, action.action_id, action.action_ts))
    if not (press_id.isascii() and press_id.isprintable()):  # it stands in a header on its way to the service
        return None
    return Press(
        id=press_id,
        reference=action.value,
        presser=Presser(
            platform=PLATFORM,
            user_id=f"{team_id}:{user.id}",
            name=truncate(to_single_line(user.name or user.username), LONGEST_NAME) or None,
        ),
        via=VIA,
        reply_to={name: value for name, value in reply_to.items() if value},
    )


def _read(raw: str | bytes | msgspec.Raw, shape: type[Shape]) -> Shape | None:
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
