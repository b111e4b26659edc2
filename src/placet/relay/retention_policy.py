"""The retention policy of a tenant: how long events and message bodies are stored."""

from datetime import timedelta
from typing import Literal

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.duration import parse_duration

PayloadMode = Literal["none", "masked", "full"]


class RetentionPolicy(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How long a tenant's events and message bodies are stored. Durations are texts such as `30d`."""

    keep_events_for: str = "365d"
    """How long events, resolved holds and tasks are stored."""
    keep_payloads_for: str = "30d"
    """How long events contain the bodies of messages."""
    payloads: PayloadMode = "masked"
    """Whether bodies are not stored, stored with masked findings, or stored unchanged."""

    @property
    def events_for(self) -> timedelta:
        """`keep_events_for` as a duration."""
        return parse_duration(self.keep_events_for)

    @property
    def payloads_for(self) -> timedelta:
        """`keep_payloads_for` as a duration."""
        return parse_duration(self.keep_payloads_for)


def check_retention_policy(
    policy: RetentionPolicy, *, events: str = "keepEventsFor", payloads: str = "keepPayloadsFor"
) -> None:
    """Raise ValidationFailed if a duration is not valid, or if bodies are stored longer than events.

    `events` and `payloads` are the names of the two durations for the error message.
    """
    for name, text in ((events, policy.keep_events_for), (payloads, policy.keep_payloads_for)):
        try:
            parse_duration(text)
        except ValidationFailed as error:
            raise ValidationFailed(f"{name}: {error.message}") from error
    if policy.payloads_for > policy.events_for:
        raise ValidationFailed(f"{payloads} is longer than {events}.")
