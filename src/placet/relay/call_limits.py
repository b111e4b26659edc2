"""Size and time limits of relayed calls."""

from datetime import timedelta

from msgspec import Struct

from placet.relay.settings import RelaySettings, parse_setting_duration


class RelayLimits(Struct, frozen=True, kw_only=True):
    """The relay's size and time limits."""

    early_return_for: timedelta = timedelta(seconds=25)
    call_for: timedelta = timedelta(minutes=10)
    stream_for: timedelta = timedelta(hours=6)
    stream_idle_for: timedelta = timedelta(minutes=5)
    read_for: timedelta = timedelta(seconds=30)
    """How long a caller may take to send its request, or to receive a chunk of a stream."""
    heartbeat_for: timedelta = timedelta(seconds=10)
    """The interval of heartbeats on a stream that is withheld for inspection."""
    max_message_bytes: int = 4 * 1024 * 1024
    max_calls: int = 1000


def limits_from_settings(settings: RelaySettings) -> RelayLimits:
    """Return the limits of these settings."""
    return RelayLimits(
        early_return_for=parse_setting_duration(settings, "early_return"),
        call_for=parse_setting_duration(settings, "call_timeout"),
        stream_for=parse_setting_duration(settings, "stream_timeout"),
        stream_idle_for=parse_setting_duration(settings, "stream_idle"),
        max_message_bytes=settings.max_message_bytes,
        max_calls=settings.max_calls,
    )
