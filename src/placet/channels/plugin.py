"""What a messenger's folder declares about itself, so that nothing else needs to know the messenger."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from placet.ports.channel import Channel

Environ = Mapping[str, str]


class ChannelPlugin(Struct, frozen=True, kw_only=True):
    """One messenger, exported as `PLUGIN` by its folder."""

    create: Callable[[Environ], Channel]
    """Create the channel from environment variables; raises SettingsError naming what is missing."""
    can_listen: bool = False
    """Whether interactions can arrive without a public address."""
    address_variables: Callable[[str], Environ] | None = None
    """The environment variables that say where messages go, for an address; None if it has no addresses."""
    tracks_delivery: bool = False
    """Whether each channel must see every webhook request, because it reports what became of messages."""
    listen_variable: str | None = None
    """The environment variable that listening needs."""
    user_id_pattern: str = ".*"
    """The form of the platform's user ids."""
    user_id_example: str = ""
    """How to write a user id, for error messages."""
    default_answerers: Callable[[], frozenset[str]] = frozenset
    """The people who may answer when the environment names none."""
