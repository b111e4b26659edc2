"""Parse Teams' activities; only presses of our buttons become an `Interaction`."""

from typing import Any

import msgspec
from msgspec import Struct, field

from placet.channels.teams.render import VERB
from placet.ports.channel import Interaction, InteractionUser
from placet.text.truncation import count_utf8_bytes, to_single_line, truncate

PLATFORM = "teams"
VIA = "teams_adaptive_card"
CHANNEL_ID = "msteams"
MAX_NAME_LENGTH = 100
MAX_REFERENCE_BYTES = 64


class TeamsAccount(Struct, frozen=True, rename="camel"):
    """A Teams user."""

    id: str = ""
    name: str | None = None
    aad_object_id: str | None = None


class TeamsConversation(Struct, frozen=True, rename="camel"):
    """The conversation of an activity."""

    id: str = ""
    tenant_id: str | None = None
    conversation_type: str | None = None


class TeamsTenant(Struct, frozen=True):
    """An organisation."""

    id: str = ""


class TeamsChannelData(Struct, frozen=True):
    """What Teams adds to an activity."""

    tenant: TeamsTenant | None = None


class TeamsAction(Struct, frozen=True):
    """The button that was pressed."""

    type: str = ""
    verb: str = ""
    data: Any = None


class TeamsInvokeValue(Struct, frozen=True):
    """The value of an invoke activity."""

    action: TeamsAction | None = None


class TeamsActivity(Struct, frozen=True, rename="camel"):
    """One event for the bot."""

    type: str
    id: str = ""
    name: str | None = None
    channel_id: str = ""
    service_url: str = ""
    sender: TeamsAccount = field(name="from", default=TeamsAccount())
    conversation: TeamsConversation = TeamsConversation()
    reply_to_id: str | None = None
    value: Any = None
    channel_data: TeamsChannelData | None = None


def read_activity(body: bytes) -> TeamsActivity | None:
    """Return the activity in a webhook body, or None if it cannot be parsed."""
    try:
        return msgspec.json.decode(body, type=TeamsActivity)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def interaction_from_activity(activity: TeamsActivity) -> Interaction | None:
    """Return the press of our button by a directory user, or None for any other activity."""
    reference = _find_reference(activity)
    tenant_id, object_id = _find_tenant_id(activity), activity.sender.aad_object_id
    if reference is None or not _fits_header(activity.id) or not tenant_id or not object_id:
        return None
    name = truncate(to_single_line(activity.sender.name or ""), MAX_NAME_LENGTH) or None
    is_personal = activity.conversation.conversation_type == "personal"
    reply_to = {
        "conversation": activity.conversation.id,
        "activity": activity.reply_to_id or "",
        "name": "" if is_personal else name or "",
    }
    return Interaction(
        id=activity.id,
        reference=reference,
        user=InteractionUser(platform=PLATFORM, user_id=f"{tenant_id}:{object_id}", name=name),
        via=VIA,
        reply_to={key: value for key, value in reply_to.items() if value},
    )


def _find_reference(activity: TeamsActivity) -> str | None:
    if activity.type != "invoke" or activity.name != "adaptiveCard/action":
        return None
    if activity.channel_id != CHANNEL_ID:
        return None
    try:
        action = msgspec.convert(activity.value, TeamsInvokeValue).action
    except msgspec.ValidationError:
        return None
    if action is None or action.verb != VERB or not isinstance(action.data, dict):
        return None
    reference = action.data.get("reference")
    fits = isinstance(reference, str) and 0 < count_utf8_bytes(reference) <= MAX_REFERENCE_BYTES
    return reference if fits else None


def _fits_header(text: str) -> bool:
    """Return whether the text can be sent in a header, as the agent does with the interaction's id."""
    return bool(text) and text.isascii() and text.isprintable()


def _find_tenant_id(activity: TeamsActivity) -> str:
    named = activity.channel_data.tenant.id if activity.channel_data and activity.channel_data.tenant else ""
    return named or activity.conversation.tenant_id or ""
