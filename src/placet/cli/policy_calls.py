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
from placet.relay.audit.stored_audit_log import StoredAuditLog
from placet.relay.inspection.policy_cache import PolicyCache, read_settings_policies
from placet.relay.inspection.replay import load_replay_detectors
from placet.relay.policies.repository import PolicyRepository
from placet.relay.registry.live_registry import LiveRegistry
from placet.relay.registry.registry_snapshot import snapshot_from_settings
from placet.relay.registry.tenant_membership import Membership
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
    settled = [] if relay.policies is None else read_settings_policies(relay.policies, now=clock.now())
    trail = StoredAuditLog(store, now=clock.now)
    books = PolicyRepository(store, trail=trail, now=clock.now, of_settings=settled)
    members = LiveRegistry(snapshot_from_settings(relay, os.environ), store=store)
    detectors = load_replay_detectors()
    shelf = PolicyCache(store, detectors, now=clock.now, of_settings=settled)
    try:
        routes = (
            *EvaluationApi(books, detectors, shelf).routes(),
            *ReplayApi(books, store, make=load_replay_detectors, monotonic=clock.monotonic).routes(),
            *PolicyApi(books, detectors).routes(),
            *PolicyGroupApi(books).routes(),
            *BindingApi(books, members).routes(),
        )
        return await work(InFile(routes, member))
    finally:
        await shelf.aclose()
        await trail.aclose()
        await detectors.aclose()
