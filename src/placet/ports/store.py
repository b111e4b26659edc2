"""The union of all storage interfaces, which a storage engine implements."""

from typing import Protocol

from placet.ports.audit_store import AuditStore
from placet.ports.case_store import CaseStore
from placet.ports.change_feed import ChangeFeed
from placet.ports.config_store import ConfigStore
from placet.ports.endpoint_store import EndpointStore
from placet.ports.grant_store import GrantStore
from placet.ports.hold_store import HoldStore
from placet.ports.inbox_store import InboxStore
from placet.ports.key_store import KeyStore
from placet.ports.log_store import LogStore
from placet.ports.outbox_store import OutboxStore
from placet.ports.passkey_store import PasskeyStore
from placet.ports.push_store import PushStore
from placet.ports.retention_store import RetentionStore
from placet.ports.store_maintenance import StoreMaintenance
from placet.ports.task_store import TaskStore
from placet.ports.verification_store import VerificationStore


class Store(
    CaseStore,
    InboxStore,
    GrantStore,
    OutboxStore,
    EndpointStore,
    KeyStore,
    PushStore,
    ConfigStore,
    TaskStore,
    HoldStore,
    AuditStore,
    RetentionStore,
    LogStore,
    PasskeyStore,
    VerificationStore,
    ChangeFeed,
    StoreMaintenance,
    Protocol,
):
    """Everything that a server stores."""
