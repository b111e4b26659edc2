"""The methods of a store that are the same for all engines in SQL."""

from collections.abc import Callable

from placet.stores.sql.cases import SqlCaseStore
from placet.stores.sql.grants import SqlGrantStore
from placet.stores.sql.inbox import SqlInboxStore
from placet.stores.sql.keys import SqlKeyStore
from placet.stores.sql.log import SqlLogStore
from placet.stores.sql.outbox import SqlOutboxStore
from placet.stores.sql.push import SqlPushStore
from placet.stores.sql.relay import SqlRelayStore
from placet.stores.sql.verification import SqlPasskeyStore, SqlVerificationStore


class SqlStore(
    SqlCaseStore,
    SqlInboxStore,
    SqlOutboxStore,
    SqlKeyStore,
    SqlPushStore,
    SqlGrantStore,
    SqlRelayStore,
    SqlLogStore,
    SqlPasskeyStore,
    SqlVerificationStore,
):
    """Implements `Store` but for its maintenance, which differs between engines."""

    def add_change_listener(self, listener: Callable[[str | None], None]) -> None:
        """See `ChangeFeed`."""
        self._writer.add_change_listener(listener)
