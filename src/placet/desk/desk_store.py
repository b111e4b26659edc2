"""The storage that the review desk needs."""

from typing import Protocol

from placet.ports.case_store import CaseStore
from placet.ports.change_feed import ChangeFeed
from placet.ports.endpoint_store import EndpointStore
from placet.ports.grant_store import GrantStore
from placet.ports.inbox_store import InboxStore


class DeskStore(CaseStore, InboxStore, GrantStore, EndpointStore, ChangeFeed, Protocol):
    """The storage interfaces that the review desk and its pages use."""
