"""The relay's own parts joined: settings in, the app out."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from aiohttp.abc import AbstractResolver

from assent.relay.access import Access
from assent.relay.calls import Calls
from assent.relay.directory import Directory
from assent.relay.inspection import Inspector, PassEverything
from assent.relay.limits import limits_from
from assent.relay.proxy import PREFIX, Authenticate, ReadBody, RelayApp
from assent.relay.registered import RelaySettings, registry_from
from assent.relay.taskbook import MemoryTaskBook, TaskBook
from assent.relay.upstream import Upstream


def relay_app(
    settings: RelaySettings,
    *,
    environ: Mapping[str, str],
    public_url: str,
    allow_loopback: bool,
    resolver: AbstractResolver,
    authenticate: Authenticate,
    read_body: ReadBody,
    check_push: Callable[[str], Awaitable[None]],
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
    inspector: Inspector | None = None,
    book: TaskBook | None = None,
) -> RelayApp:
    """The relay of these settings; raises SettingsError for a credential the environment lacks."""
    limits = limits_from(settings)
    upstream = Upstream(resolver=resolver, limits=limits)
    directory = Directory(
        upstream=upstream,
        address=lambda agent_id: f"{public_url}{PREFIX}{agent_id}",
        monotonic=monotonic,
        allow_loopback=allow_loopback,
    )
    calls = Calls(
        upstream=upstream,
        directory=directory,
        access=Access(book or MemoryTaskBook()),
        inspector=inspector or PassEverything(),
        limits=limits,
        check_push=check_push,
        now=now,
    )
    return RelayApp(
        registry=registry_from(settings, environ),
        directory=directory,
        calls=calls,
        authenticate=authenticate,
        read_body=read_body,
        public_cards=settings.public_cards,
    )
