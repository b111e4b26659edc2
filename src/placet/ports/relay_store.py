"""Everything that the relay stores. Cases belong to the desk, and the relay reads them there."""

from typing import Protocol

from placet.ports.audit_store import AuditStore
from placet.ports.change_feed import ChangeFeed
from placet.ports.config_store import ConfigStore
from placet.ports.endpoint_store import EndpointStore
from placet.ports.hold_store import HoldStore
from placet.ports.key_store import KeyStore
from placet.ports.outbox_store import OutboxStore
from placet.ports.retention_store import RetentionStore
from placet.ports.task_store import TaskStore


class RelayStore(
    HoldStore,
    TaskStore,
    AuditStore,
    ConfigStore,
    RetentionStore,
    OutboxStore,
    EndpointStore,
    KeyStore,
    ChangeFeed,
    Protocol,
):
    """The storage interfaces that the relay uses."""
