"""Web push subscriptions."""

from collections.abc import Sequence

from placet.ports.push_store import PushSubscription
from placet.stores.sql.operation import WriteOperation, build_single_statement
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.rows import datetime_from, to_micros
from placet.stores.sql.writer import Writer

UPSERT_PUSH_SUBSCRIPTION = "upsert_push_subscription"
SELECT_PUSH_SUBSCRIPTIONS = "select_push_subscriptions"
DELETE_PUSH_SUBSCRIPTION = "delete_push_subscription"
DELETE_OLD_PUSH_SUBSCRIPTIONS = "delete_old_push_subscriptions"


class SqlPushStore:
    """Implements `PushStore`."""

    _reader: SqlReader
    _writer: Writer

    async def save_push_subscription(self, subscription: PushSubscription, *, most: int) -> None:
        """Write a subscription, in place of any with its endpoint; keep the newest `most` of its owner."""
        row = (
            subscription.endpoint,
            subscription.owner,
            subscription.p256dh,
            subscription.auth,
            to_micros(subscription.created_at),
        )
        statements = (
            (UPSERT_PUSH_SUBSCRIPTION, row),
            (DELETE_OLD_PUSH_SUBSCRIPTIONS, (subscription.owner, most)),
        )
        await self._writer.submit(WriteOperation(statements=statements))

    async def list_push_subscriptions(self, owner: str) -> Sequence[PushSubscription]:
        """Return the subscriptions of a person, oldest first."""
        return [
            PushSubscription(
                endpoint=endpoint,
                owner=whose,
                p256dh=p256dh,
                auth=auth,
                created_at=datetime_from(created_at),
            )
            for endpoint, whose, p256dh, auth, created_at in await self._reader.rows(
                SELECT_PUSH_SUBSCRIPTIONS, (owner,)
            )
        ]

    async def delete_push_subscription(self, endpoint: str) -> None:
        """Delete the subscription with this endpoint, if it exists."""
        await self._writer.submit(build_single_statement(DELETE_PUSH_SUBSCRIPTION, (endpoint,)))
