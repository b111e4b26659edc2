"""Grants and their uses."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from placet.cases.grant import Grant, GrantUse
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.rows import Params, Row, datetime_from, encode, to_micros

SELECT_GRANTS = "select_grants"
SELECT_GRANT_NUMBER = "select_grant_number"
SELECT_GRANT_USE = "select_grant_use"

_OF_CASE = """
WHERE case_number = (SELECT number FROM cases WHERE id = ?) ORDER BY grants.number DESC
"""
_USABLE = "WHERE grants.owner = ? AND tool = ? AND open_until > ?"
_patterns_from = msgspec.json.Decoder(dict[str, dict[str, object]]).decode


class SqlGrantStore:
    """Implements `GrantStore`; grants are written with their cases."""

    _reader: SqlReader

    async def get_grant(self, grant_id: str) -> Grant | None:
        """Return one grant in any state, or None if it does not exist."""
        found = await self._read_grants("WHERE grants.id = ?", (grant_id,))
        return found[0] if found else None

    async def list_grants(
        self, owner: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> Sequence[Grant]:
        """Return grants of an owner or all, newest first. `before` is the last id seen."""
        conditions: dict[str, str | int] = {} if owner is None else {"grants.owner = ?": owner}
        if before is not None:
            row = await self._reader.row(SELECT_GRANT_NUMBER, (before,))
            conditions["grants.number < ?"] = row[0] if row else 0
        where = " AND ".join(conditions) or "true"
        return await self._read_grants(
            f"WHERE {where} ORDER BY grants.number DESC LIMIT ?", (*conditions.values(), limit)
        )

    async def list_grants_of_case(self, case_id: str) -> Sequence[Grant]:
        """Return the grants that were given with a case, newest first."""
        return await self._read_grants(_OF_CASE, (case_id,))

    async def list_usable_grants(self, owner: str, tool: str, now: datetime) -> Sequence[Grant]:
        """Return the owner's grants for this tool that are neither expired, revoked nor used up."""
        return await self._read_grants(_USABLE, (owner, tool, to_micros(now)))

    async def get_grant_use(self, owner: str, key: str) -> GrantUse | None:
        """Return the use that was counted under this key."""
        row = await self._reader.row(SELECT_GRANT_USE, (owner, key))
        if row is None:
            return None
        grant_id, call_digest, used_at, expires_at = row
        return GrantUse(
            owner=owner,
            key=key,
            grant_id=grant_id,
            call_digest=call_digest,
            used_at=datetime_from(used_at),
            expires_at=datetime_from(expires_at),
        )

    async def _read_grants(self, terms: str, params: Params) -> list[Grant]:
        return [grant_from(row) for row in await self._reader.rows(SELECT_GRANTS, params, terms=terms)]


def row_from_grant(grant: Grant) -> Params:
    """Return the parameters of `insert_grant`."""
    is_over = grant.revoked_at is not None or grant.uses_left == 0 or grant.patterns is None
    return (
        grant.id,
        grant.case_id,
        grant.owner,
        grant.tool,
        grant.agent,
        None if grant.patterns is None else encode(grant.patterns),
        grant.uses,
        grant.used,
        to_micros(grant.granted_at),
        to_micros(grant.expires_at),
        grant.granted_by,
        grant.call_id,
        to_micros(grant.revoked_at),
        grant.revoked_by,
        None if is_over else to_micros(grant.expires_at),
    )


def row_from_use(use: GrantUse) -> Params:
    """Return the parameters of `insert_grant_use`."""
    return (
        use.owner,
        use.key,
        use.grant_id,
        use.call_digest,
        to_micros(use.used_at),
        to_micros(use.expires_at),
    )


def grant_from(row: Row) -> Grant:
    """Convert a row of `select_grants`."""
    id, case_id, owner, tool, agent, patterns, uses, used, granted_at, expires_at, *rest = row
    granted_by, call_id, revoked_at, revoked_by = rest
    return Grant(
        id=id,
        case_id=case_id,
        owner=owner,
        tool=tool,
        agent=agent,
        patterns=None if patterns is None else _patterns_from(patterns),
        uses=uses,
        used=used,
        granted_at=datetime_from(granted_at),
        expires_at=datetime_from(expires_at),
        granted_by=granted_by,
        call_id=call_id,
        revoked_at=datetime_from(revoked_at),
        revoked_by=revoked_by,
    )
