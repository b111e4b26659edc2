"""Where `placet audit` reads: from a server, or in the file that a server keeps."""

import asyncio
from typing import Any, TypeVar

from placet.cli.options import loaded, with_store
from placet.cli.relay_calls import InFile, Work, on_server, operator_of, place_options, server_of
from placet.desk import clock
from placet.ports.store import Store
from placet.relay.api.audit import PATH, AuditApi
from placet.relay.audit.stored_audit_log import StoredAuditLog
from placet.relay.registry.tenant_membership import Membership

T = TypeVar("T")

where_options = place_options("Whose audit; with a server default: that of the key.")


def at(where: dict[str, Any], work: Work[T]) -> T:
    """Do the work where the flags say."""
    server = server_of(where)
    if server is not None:
        return asyncio.run(on_server(server, where["key"], where["tenant"], work, api=PATH))
    member = operator_of(where["tenant"])
    db = loaded(where["config"], db=where["db"]).settings.db
    return with_store(db, lambda store: work(_in_file(store, member)))


def _in_file(store: Store, member: Membership) -> InFile:
    audit = AuditApi(store, StoredAuditLog(store, now=clock.now), now=clock.now)
    return InFile(audit.routes(), member, api=PATH)
