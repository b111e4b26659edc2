"""Where `placet policy` does its work: on a server, or in the file that a server keeps."""

import asyncio
import os
from typing import Any, TypeVar

from placet.cli.options import loaded, with_store
from placet.cli.relay_calls import InFile, Work, on_server, operator_of, place_options, server_of
from placet.desk import clock
from placet.ports.store import Store
from placet.relay.api.bindings import BindingApi
from placet.relay.api.policies import PolicyApi
from placet.relay.api.policy_groups import PolicyGroupApi
from placet.relay.api.replays import ReplayApi
from placet.relay.api.tryouts import EvaluationApi
from placet.relay.audit.stored import StoredTrail
from placet.relay.judging.replay import detectors_beside
from placet.relay.judging.shelf import Shelf, policies_in
from placet.relay.membership.members import Members
from placet.relay.membership.roster import roster_of
from placet.relay.membership.tenancy import Membership
from placet.relay.policies.bookkeeping import Bookkeeper
from placet.relay.settings import RelaySettings

T = TypeVar("T")

where_options = place_options("Whose policies; with a server default: those of the key.")


def at(where: dict[str, Any], work: Work[T], *, create: bool = False) -> T:
    """Do the work where the flags say; `create` makes the file if it is not there."""
    server = server_of(where)
    if server is not None:
        return asyncio.run(on_server(server, where["key"], where["tenant"], work))
    settings = loaded(where["config"], db=where["db"]).settings
    member = operator_of(where["tenant"])
    relay = settings.relay or RelaySettings()
    return with_store(settings.db, lambda store: _in_file(store, member, relay, work), create=create)


async def _in_file(store: Store, member: Membership, relay: RelaySettings, work: Work[T]) -> T:
    settled = [] if relay.policies is None else policies_in(relay.policies, now=clock.now())
    trail = StoredTrail(store, now=clock.now)
    books = Bookkeeper(store, trail=trail, now=clock.now, of_settings=settled)
    members = Members(roster_of(relay, os.environ), store=store)
    detectors = detectors_beside()
    shelf = Shelf(store, detectors, now=clock.now, of_settings=settled)
    try:
        routes = (
            *EvaluationApi(books, detectors, shelf).routes(),
            *ReplayApi(books, store, make=detectors_beside, monotonic=clock.monotonic).routes(),
            *PolicyApi(books, detectors).routes(),
            *PolicyGroupApi(books).routes(),
            *BindingApi(books, members).routes(),
        )
        return await work(InFile(routes, member))
    finally:
        await shelf.aclose()
        await trail.aclose()
        await detectors.aclose()
