"""How long a tenant's events and message bodies are retained."""

from datetime import timedelta
from typing import Literal

from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.duration import parse_duration

PayloadMode = Literal["none", "masked", "full"]


class RetentionPolicy(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a tenant wants of its audit; durations as everywhere, such as `30d`."""

    keep_events_for: str = "365d"
    """How long events, settled holds and tasks are kept."""
    keep_payloads_for: str = "30d"
    """How long the bodies of messages stand in events."""
    payloads: PayloadMode = "masked"
    """Whether bodies are kept at all, without what policies found, or as they were."""

    @property
    def events_for(self) -> timedelta:
        """`keep_events_for` as a time."""
        return parse_duration(self.keep_events_for)

    @property
    def payloads_for(self) -> timedelta:
        """`keep_payloads_for` as a time."""
        return parse_duration(self.keep_payloads_for)


def check_retention_policy(
    keeping: RetentionPolicy, *, events: str = "keepEventsFor", payloads: str = "keepPayloadsFor"
) -> None:
    """Raise ValidationFailed for what is no duration, or for payloads that would outlive their events.

    `events` and `payloads` are what the two durations are called where they were written.
    """
    for name, text in ((events, keeping.keep_events_for), (payloads, keeping.keep_payloads_for)):
        try:
            parse_duration(text)
        except ValidationFailed as error:
            raise ValidationFailed(f"{name}: {error.message}") from error
    if keeping.payloads_for > keeping.events_for:
        raise ValidationFailed(f"{payloads} is longer than {events}.")
