"""The open channels of a server: one for each address that messages may go to."""

from collections.abc import Collection, Mapping, Sequence

from placet.channels.registry import open_address, split_address
from placet.errors import SettingsError
from placet.ports.channel import Channel


class ChannelPool:
    """Opens a channel for each address; raises SettingsError if a platform's credentials are missing."""

    def __init__(
        self,
        addresses: Collection[str],
        environ: Mapping[str, str],
        *,
        own: Mapping[str, Channel] | None = None,
    ) -> None:
        """`own` are channels by their addresses that are not opened from the environment."""
        opened = self._own = own or {}
        self._channels = {
            address: opened[address] if address in opened else open_address(address, environ)
            for address in addresses
        }

    def get(self, address: str) -> Channel:
        """Return the channel to this address; raise SettingsError if it is no longer in the settings."""
        channel = self._channels.get(address)
        if channel is None:
            raise SettingsError(f"{address!r} is no longer among the recipients.")
        return channel

    @property
    def platforms(self) -> Mapping[str, Sequence[Channel]]:
        """The channels of messengers by the name of their platform."""
        found: dict[str, list[Channel]] = {}
        for address, channel in self._channels.items():
            if address in self._own:
                continue
            found.setdefault(split_address(address)[0], []).append(channel)
        return found

    async def aclose(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            await channel.aclose()
