"""The store interfaces that holds need."""

from typing import Protocol

from placet.ports.case_store import CaseStore
from placet.ports.change_feed import ChangeFeed
from placet.ports.endpoint_store import EndpointStore
from placet.ports.hold_store import HoldStore
from placet.ports.key_store import KeyStore
from placet.ports.outbox_store import OutboxStore


class CaseHoldStore(CaseStore, HoldStore, Protocol):
    """Stores cases and their holds."""


class HoldCreationStore(CaseHoldStore, KeyStore, ChangeFeed, Protocol):
    """The store that `HoldService` needs."""


class NoticeStore(OutboxStore, EndpointStore, Protocol):
    """The store that `HoldNotifier` needs."""
