"""Deliveries and their endpoints."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import msgspec

from placet.ports.endpoint_store import Endpoint
from placet.ports.outbox_store import ALL_DELIVERIES, Delivery, DeliveryFilter
from placet.stores.sql import rows
from placet.stores.sql.operation import WriteOperation, attempt_operation, build_single_statement
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.rows import Params, datetime_from, to_micros
from placet.stores.sql.writer import Writer

INSERT_ENDPOINT = "insert_endpoint"
INSERT_NOTICE = "insert_notice"
LEASE_DELIVERIES = "lease_deliveries"
REQUEUE_DELIVERY = "requeue_delivery"
SELECT_DELIVERIES = "select_deliveries"
SELECT_NEXT_DELIVERY_AT = "select_next_delivery_at"
SELECT_ENDPOINT = "select_endpoint"
SELECT_ENDPOINTS = "select_endpoints"
UPDATE_ENDPOINT = "update_endpoint"

# A query contains only the conditions in use, and states as literals, so that each finds its index.
_OF_ID = "deliveries.id = ?"
_OF_OWNER = "deliveries.owner = ?"
_OF_CASE = "case_number = (SELECT number FROM cases WHERE id = ?)"
_OF_STATE = {state: f"deliveries.state = '{state}'" for state in ("waiting", "delivered", "failed")}


class SqlOutboxStore:
    """Implements `OutboxStore` and `EndpointStore`."""

    _reader: SqlReader
    _writer: Writer

    async def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Write deliveries that belong to no case, all or none."""
        statements = tuple((INSERT_NOTICE, rows.row_from_delivery(delivery)) for delivery in deliveries)
        await self._writer.submit(WriteOperation(statements=statements))

    async def lease_deliveries(
        self, now: datetime, *, lease_for: timedelta, limit: int, except_to: Collection[str] = ()
    ) -> Sequence[Delivery]:
        """Return waiting deliveries that are due, and hide them from other workers until the lease ends."""
        next_at = await self.get_next_delivery_at()
        if next_at is None or next_at > now:
            return []
        excluded = msgspec.json.encode(list(except_to)).decode()
        terms = (to_micros(now), to_micros(now + lease_for), limit, excluded)
        leased = await self._writer.submit(build_single_statement(LEASE_DELIVERIES, terms))
        return [rows.delivery_from(row) for row in leased]

    async def save_delivery_attempt(self, delivery: Delivery, *, disable_endpoint: bool = False) -> None:
        """Write the outcome of one attempt. A delivered delivery stays delivered."""
        await self._writer.submit(attempt_operation(delivery, disable_endpoint=disable_endpoint))

    async def requeue_delivery(self, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Make a delivery due again in any state; None if it is unknown or its content was erased."""
        found = await self._writer.submit(
            build_single_statement(REQUEUE_DELIVERY, (delivery_id, to_micros(now)))
        )
        return rows.delivery_from(found[0]) if found else None

    async def list_deliveries(
        self, filter: DeliveryFilter = ALL_DELIVERIES, *, limit: int = 50
    ) -> Sequence[Delivery]:
        """Return the delivery log, newest first."""
        if filter.state is not None and filter.state not in _OF_STATE:
            return []
        terms = {_OF_OWNER: filter.owner, _OF_CASE: filter.case_id}
        conditions = [_OF_STATE[filter.state]] if filter.state is not None else []
        conditions += [condition for condition, value in terms.items() if value is not None]
        values = [value for value in terms.values() if value is not None]
        return await self._read_deliveries(conditions, (*values, limit))

    async def get_delivery(self, delivery_id: str) -> Delivery | None:
        """Return one delivery, or None if it does not exist."""
        found = await self._read_deliveries([_OF_ID], (delivery_id, 1))
        return found[0] if found else None

    async def _read_deliveries(self, conditions: Sequence[str], params: Params) -> list[Delivery]:
        where = " AND ".join(conditions) or "true"
        terms = f"WHERE {where} ORDER BY deliveries.number DESC LIMIT ?"
        found = await self._reader.rows(SELECT_DELIVERIES, params, terms=terms)
        return [rows.delivery_from(row) for row in found]

    async def get_next_delivery_at(self) -> datetime | None:
        """Return when the next waiting delivery is due."""
        row = await self._reader.row(SELECT_NEXT_DELIVERY_AT)
        next_at: int | None = row[0]
        return datetime_from(next_at)

    async def get_endpoint(self, owner: str, url: str) -> Endpoint | None:
        """Return the owner's endpoint at this URL."""
        row = await self._reader.row(SELECT_ENDPOINT, (owner, url))
        return rows.endpoint_from(row) if row else None

    async def list_endpoints(self, owner: str) -> Sequence[Endpoint]:
        """Return all endpoints of an owner."""
        return [rows.endpoint_from(row) for row in await self._reader.rows(SELECT_ENDPOINTS, (owner,))]

    async def save_endpoint(self, endpoint: Endpoint, *, after: Endpoint | None = None) -> None:
        """Write a new endpoint, or replace `after`. Raises CaseConflict if `after` is no longer stored."""
        row = rows.row_from_endpoint(endpoint)
        if after is None:
            await self._writer.submit(build_single_statement(INSERT_ENDPOINT, row, guarded=True))
        else:
            known = (after.secret, to_micros(after.disabled_at))
            await self._writer.submit(
                build_single_statement(UPDATE_ENDPOINT, (*row[:-1], *known), guarded=True)
            )
