"""Names into addresses that were checked; what is connected to is exactly what was checked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

from placet.protocol.addresses import Network, check_address

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""From a host name to its addresses; raises OSError when it has none."""

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
# A name with a thousand addresses must not turn one delivery into a thousand connections.
MOST_ADDRESSES = 8


class GuardedResolver(AbstractResolver):
    """Resolves a name once for each connection and refuses it whole if any of its addresses is forbidden.

    Addresses in `networks` are allowed: only for calling what the operator has put there, nothing else.
    """

    def __init__(
        self, lookup: Lookup, *, allow_loopback: bool = False, networks: Sequence[Network] = ()
    ) -> None:
        self._lookup = lookup
        self._allow_loopback = allow_loopback
        self._networks = tuple(networks)

    async def addresses(self, host: str) -> list[str]:
        """The checked addresses of `host`; raises `AddressRefused`, or OSError when there are none."""
        # RFC 6761: localhost is this machine whatever a name server says, and plain HTTP to it is allowed.
        found = LOOPBACK_ADDRESSES if host == "localhost" else await self._lookup(host)
        for address in found:
            check_address(address, allow_loopback=self._allow_loopback, networks=self._networks, host=host)
        if not found:
            raise OSError("the name has no address")
        return list(dict.fromkeys(found))[:MOST_ADDRESSES]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """What aiohttp connects to: numeric addresses only, so that nobody looks the name up again."""
        return [_pin_address(host, address, port) for address in await self.addresses(host)]

    async def close(self) -> None:
        """Nothing to let go of: the lookup belongs to whoever passed it."""


class SystemLookup:
    """The operating system's resolver, in threads of its own so that slow names hold up nothing else."""

    def __init__(self, *, threads: int = 8) -> None:
        self._size = threads
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, host: str) -> list[str]:
        """All stream addresses of `host`; raises OSError when there are none."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="placet-lookup")
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

    def close(self) -> None:
        """Drop the lookups that wait; those under way end by themselves."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _look_up(host: str) -> list[str]:
    # As bytes, so that Python's own IDNA codec does not read the name once more.
    name = host.encode("ascii")
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in found]


def _pin_address(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
