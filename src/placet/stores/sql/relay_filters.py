"""SQL for the filters over holds and audit events.

A query contains only the conditions in use and names its index. SQLite has no statistics: without the name it
would scan a time range instead of looking up a correlation id.
"""

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditFilter, SortOrder
from placet.ports.hold_store import HoldFilter
from placet.stores.sql.rows import Params, Value, to_micros

SELECT_HOLDS = "select_holds"
COUNT_HOLDS = "count_holds"
SELECT_AUDIT_EVENTS = "select_audit_events"
SELECT_NUMBERED = "select_numbered_audit_events"
COUNT_AUDIT_EVENTS = "count_audit_events"
SELECT_FIRST_NUMBER = "select_first_number"
COUNT_TRACES = "count_traces"
SELECT_TRACES = "select_traces"
BULK_TYPE, BULK_ACTION = "COMMUNICATION_AUDIT", "LOG"
# SQLite uses a partial index only for a query that repeats the condition of the index.
_PARTIAL_INDEX_CONDITIONS = {
    "audit_events_by_action": f" AND action <> '{BULK_ACTION}'",
    "audit_events_by_type": f" AND type <> '{BULK_TYPE}'",
}


class RowQuery(Struct, frozen=True):
    """The conditions on the rows of one table, and the index to use."""

    index: str
    time_column: str
    where: str
    params: Params

    @property
    def terms(self) -> str:
        """The SQL that selects the rows."""
        return f"WHERE {self.where}"

    def build_page_terms(self, order: SortOrder) -> str:
        """Return the SQL that selects one page; its size and offset are the last parameters."""
        direction = "DESC" if order == "newest" else "ASC"
        order_by = f"ORDER BY {self.time_column} {direction}, number {direction}"
        return f"{self.terms} {order_by} LIMIT ? OFFSET ?"


def build_hold_query(tenant: str, filter: HoldFilter) -> RowQuery:
    """Return the query of the holds that match."""
    indexes = {
        "holds_of_task": filter.task_id,
        "holds_of_correlation": filter.correlation_id,
        "holds_of_source": None if filter.status is None else filter.source,
        "holds_by_status": filter.status,
    }
    where, params = _join_conditions(
        {
            "tenant = ?": tenant,
            "status = ?": filter.status,
            "source = ?": filter.source,
            "sink = ?": filter.sink,
            "task_id = ?": filter.task_id,
            "policy_name = ?": filter.policy_name,
            "detection_source = ?": filter.detection_source,
            "correlation_id = ?": filter.correlation_id,
            "created_at >= ?": to_micros(filter.since),
            "created_at < ?": to_micros(filter.until),
        }
    )
    return RowQuery(_choose_index(indexes, "holds_by_time"), "created_at", where, params)


def build_event_query(tenant: str, filter: AuditFilter) -> RowQuery:
    """Return the query of the events that match."""
    where, params = _join_conditions(
        {
            "tenant = ?": tenant,
            "at >= ?": to_micros(filter.since),
            "at < ?": to_micros(filter.until),
            "action = ?": filter.action,
            "transport = ?": filter.transport,
            "source_agent = ?": filter.source_agent,
            "source_user = ?": filter.source_user,
            "sink_agent = ?": filter.sink_agent,
            "correlation_id = ?": filter.correlation_id,
            "task_id = ?": filter.task_id,
        }
    )
    if filter.types:
        where += f" AND type IN ({', '.join('?' * len(filter.types))})"
    index = _choose_index(
        _list_event_indexes(filter) | _list_selective_indexes(filter), "audit_events_by_time"
    )
    where += _PARTIAL_INDEX_CONDITIONS.get(index, "")
    return RowQuery(index, "at", where, (*params, *filter.types))


def build_ordered_event_query(tenant: str, filter: AuditFilter) -> RowQuery:
    """Return the query of the events that match, in the order they were written.

    Its last parameters are the number to start after and the limit.
    """
    found = build_event_query(tenant, filter)
    index = _choose_index(_list_event_indexes(filter), "audit_events_in_order")
    where = f"{found.where} AND number > ? ORDER BY number LIMIT ?"
    return RowQuery(index, "number", where, found.params)


def build_trace_query(tenant: str, filter: AuditFilter) -> RowQuery:
    """Return the query of the events whose correlation ids are listed."""
    found = build_event_query(tenant, filter)
    timed = filter.since is not None or filter.until is not None
    by_name = found.index == "audit_events_by_time" and not timed
    return replace(found, index="audit_events_of_correlation") if by_name else found


def _list_selective_indexes(filter: AuditFilter) -> dict[str, str | None]:
    """Return the indexes that select few rows; each ends with the time, and so also serves a time range."""
    return {
        "audit_events_by_action": filter.action if filter.action != BULK_ACTION else None,
        "audit_events_by_type": filter.types[0] if filter.types and BULK_TYPE not in filter.types else None,
        "audit_events_from_user": filter.source_user,
        "audit_events_from_agent": filter.source_agent,
        "audit_events_to_agent": filter.sink_agent,
    }


def _list_event_indexes(filter: AuditFilter) -> dict[str, str | None]:
    return {"audit_events_of_correlation": filter.correlation_id, "audit_events_of_task": filter.task_id}


def _choose_index(indexes: dict[str, str | None], otherwise: str) -> str:
    return next((index for index, value in indexes.items() if value is not None), otherwise)


def _join_conditions(terms: dict[str, Value]) -> tuple[str, Params]:
    used = {term: value for term, value in terms.items() if value is not None}
    return " AND ".join(used), tuple(used.values())
