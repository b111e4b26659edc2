"""Resolution of host names to checked addresses. Connections go to exactly the checked addresses."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

from placet.protocol.addresses import check_address
from placet.protocol.forbidden_networks import Network

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name. Raises OSError if it has none."""

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
# Limits the connection attempts of one delivery to a name with many addresses.
MAX_ADDRESSES = 8
LOOKUP_THREADS = 8


class GuardedResolver(AbstractResolver):
    """Resolves a name once per connection, and refuses it if any of its addresses is forbidden.

    Addresses in `networks` are allowed: only for calling what the operator has put there, nothing else.
    """

    def __init__(
        self, lookup: Lookup, *, allow_loopback: bool = False, networks: Sequence[Network] = ()
    ) -> None:
        self._lookup = lookup
        self._allow_loopback = allow_loopback
        self._networks = tuple(networks)

    async def addresses(self, host: str) -> list[str]:
        """Return the checked addresses of `host`. Raises `AddressRefused`, or OSError if there are none."""
        # RFC 6761: localhost is always this machine, and plain HTTP to it is allowed.
        found = LOOPBACK_ADDRESSES if host == "localhost" else await self._lookup(host)
        for address in found:
            check_address(address, allow_loopback=self._allow_loopback, networks=self._networks, host=host)
        if not found:
            raise OSError("the name has no address")
        return list(dict.fromkeys(found))[:MAX_ADDRESSES]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return numeric addresses for aiohttp, so that it does not resolve the name again."""
        return [_pin_address(host, address, port) for address in await self.addresses(host)]

    async def close(self) -> None:
        """Do nothing: the caller closes the lookup."""


class SystemLookup:
    """The operating system's resolver, in separate threads so that slow lookups do not block other work."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, host: str) -> list[str]:
        """Return all stream addresses of `host`. Raises OSError if there are none."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="placet-lookup")
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

    def close(self) -> None:
        """Cancel the waiting lookups. Running ones end by themselves."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _look_up(host: str) -> list[str]:
    # As bytes, so that Python's IDNA codec does not change the name.
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
