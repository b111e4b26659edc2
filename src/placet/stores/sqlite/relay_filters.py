"""How filters over holds and audit events become SQL.

Only what is asked for enters a query, and each names the index it goes by: the database has no statistics,
and left to itself would rather walk a time range than look up a correlation id.
"""

from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditFilter, SortOrder
from placet.ports.hold_store import HoldFilter
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.rows import Params, Value, micros

SELECT_HOLDS = QUERIES["select_holds"]
COUNT_HOLDS = QUERIES["count_holds"]
SELECT_AUDIT_EVENTS = QUERIES["select_audit_events"]
SELECT_NUMBERED = QUERIES["select_numbered_audit_events"]
COUNT_AUDIT_EVENTS = QUERIES["count_audit_events"]
SELECT_FIRST_NUMBER = QUERIES["select_first_number"]
SELECT_CORRELATIONS = QUERIES["select_correlations"]
COUNT_CORRELATIONS = QUERIES["count_correlations"]
SELECT_TRACES = QUERIES["select_traces"]
BULK_TYPE, BULK_ACTION = "COMMUNICATION_AUDIT", "LOG"
# An index over a part of the rows serves only a query that says in so many words to want no others.
_PROOFS = {
    "audit_events_by_action": f" AND action <> '{BULK_ACTION}'",
    "audit_events_by_type": f" AND type <> '{BULK_TYPE}'",
}


class Asked(Struct, frozen=True):
    """Conditions on the rows of one table, and the index that finds them."""

    index: str
    moment: str
    where: str
    params: Params

    @property
    def source(self) -> str:
        """What follows the table's name."""
        return f"INDEXED BY {self.index} WHERE {self.where}"

    def page(self, select: str, order: SortOrder) -> str:
        """One page of what fits; its size and where it begins are the last parameters."""
        way = "DESC" if order == "newest" else "ASC"
        return f"{select} {self.source} ORDER BY {self.moment} {way}, number {way} LIMIT ? OFFSET ?"

    def count(self, select: str) -> str:
        """How much fits."""
        return f"{select} {self.source}"


def asked_holds(tenant: str, asked: HoldFilter) -> Asked:
    """Holds that fit."""
    indexes = {
        "holds_of_task": asked.task_id,
        "holds_of_correlation": asked.correlation_id,
        "holds_of_source": None if asked.status is None else asked.source,
        "holds_by_status": asked.status,
    }
    where, params = _joined(
        {
            "tenant = ?": tenant,
            "status = ?": asked.status,
            "source = ?": asked.source,
            "sink = ?": asked.sink,
            "task_id = ?": asked.task_id,
            "policy_name = ?": asked.policy_name,
            "detection_source = ?": asked.detection_source,
            "correlation_id = ?": asked.correlation_id,
            "created_at >= ?": micros(asked.since),
            "created_at < ?": micros(asked.until),
        }
    )
    return Asked(_first(indexes, "holds_by_time"), "created_at", where, params)


def asked_events(tenant: str, asked: AuditFilter) -> Asked:
    """Events that fit."""
    where, params = _joined(
        {
            "tenant = ?": tenant,
            "at >= ?": micros(asked.since),
            "at < ?": micros(asked.until),
            "action = ?": asked.action,
            "transport = ?": asked.transport,
            "source_agent = ?": asked.source_agent,
            "source_user = ?": asked.source_user,
            "sink_agent = ?": asked.sink_agent,
            "correlation_id = ?": asked.correlation_id,
            "task_id = ?": asked.task_id,
        }
    )
    if asked.types:
        where += f" AND type IN ({', '.join('?' * len(asked.types))})"
    index = _first(_event_indexes(asked) | _rarer(asked), "audit_events_by_time")
    where += _PROOFS.get(index, "")
    return Asked(index, "at", where, (*params, *asked.types))


def following_events(tenant: str, asked: AuditFilter) -> Asked:
    """Events that fit, to be read in the order they were written; the last parameters are as in the text."""
    found = asked_events(tenant, asked)
    index = _first(_event_indexes(asked), "audit_events_in_order")
    where = f"{found.where} AND number > ? ORDER BY number LIMIT ?"
    return Asked(index, "number", where, found.params)


def asked_traces(tenant: str, asked: AuditFilter) -> Asked:
    """Events that fit, for their correlation ids."""
    found = asked_events(tenant, asked)
    timed = asked.since is not None or asked.until is not None
    by_name = found.index == "audit_events_by_time" and not timed
    return replace(found, index="audit_events_of_correlation") if by_name else found


def traces_query(asked: Asked, select: str) -> str:
    """A query over the correlation ids of the events that fit."""
    return f"WITH asked (correlation_id) AS ({SELECT_CORRELATIONS} {asked.source}) {select}"


def _rarer(asked: AuditFilter) -> dict[str, str | None]:
    """Indexes of what is likely to be a small part of all; each ends with the time, and so serves a range."""
    return {
        "audit_events_by_action": asked.action if asked.action != BULK_ACTION else None,
        "audit_events_by_type": asked.types[0] if asked.types and BULK_TYPE not in asked.types else None,
        "audit_events_from_user": asked.source_user,
        "audit_events_from_agent": asked.source_agent,
        "audit_events_to_agent": asked.sink_agent,
    }


def _event_indexes(asked: AuditFilter) -> dict[str, str | None]:
    return {"audit_events_of_correlation": asked.correlation_id, "audit_events_of_task": asked.task_id}


def _first(indexes: dict[str, str | None], otherwise: str) -> str:
    return next((index for index, value in indexes.items() if value is not None), otherwise)


def _joined(terms: dict[str, Value]) -> tuple[str, Params]:
    asked = {term: value for term, value in terms.items() if value is not None}
    return " AND ".join(asked), tuple(asked.values())
