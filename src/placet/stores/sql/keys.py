"""API keys, inbox sessions, signing keys and secrets."""

from collections.abc import Sequence
from datetime import datetime

from placet.ports.key_store import ApiKey, StoredSession
from placet.stores.sql import rows
from placet.stores.sql.operation import WriteOperation, build_single_statement
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.writer import Writer

SELECT_API_KEY = "select_api_key"
SELECT_API_KEYS = "select_api_keys"
UPSERT_API_KEY = "upsert_api_key"
SELECT_SIGNING_KEYS = "select_signing_keys"
UPSERT_SIGNING_KEY = "upsert_signing_key"
INSERT_INBOX_SESSION = "insert_inbox_session"
SELECT_INBOX_SESSION = "select_inbox_session"
DELETE_INBOX_SESSION = "delete_inbox_session"
DELETE_ENDED_INBOX_SESSIONS = "delete_ended_inbox_sessions"


class SqlKeyStore:
    """Implements `KeyStore`."""

    _reader: SqlReader
    _writer: Writer

    async def get_api_key(self, digest: str) -> ApiKey | None:
        """Return the key with this digest, valid or not."""
        row = await self._reader.row(SELECT_API_KEY, (digest,))
        return rows.api_key_from(row) if row else None

    async def list_api_keys(self) -> Sequence[ApiKey]:
        """Return all keys, oldest first."""
        return [rows.api_key_from(row) for row in await self._reader.rows(SELECT_API_KEYS)]

    async def save_api_key(self, key: ApiKey) -> None:
        """Write a new or changed key. Raises CaseConflict if another key has its digest."""
        await self._writer.submit(build_single_statement(UPSERT_API_KEY, rows.row_from_api_key(key)))

    async def get_inbox_session(self, digest: str) -> StoredSession | None:
        """Return the session with this digest, ended by time or not; None once it was deleted."""
        row = await self._reader.row(SELECT_INBOX_SESSION, (digest,))
        return rows.session_from(row) if row else None

    async def add_inbox_session(self, session: StoredSession, *, now: datetime) -> None:
        """Write a new session, and delete those that have ended."""
        ended = (DELETE_ENDED_INBOX_SESSIONS, (rows.to_micros(now),))
        insert = (INSERT_INBOX_SESSION, rows.row_from_session(session))
        await self._writer.submit(WriteOperation(statements=(ended, insert)))

    async def delete_inbox_session(self, digest: str) -> None:
        """Delete a session, if it exists."""
        await self._writer.submit(build_single_statement(DELETE_INBOX_SESSION, (digest,)))

    async def list_signing_keys(self) -> Sequence[str]:
        """Return the serialised signing keys, oldest first."""
        return [key for (key,) in await self._reader.rows(SELECT_SIGNING_KEYS)]

    async def save_signing_keys(self, keys: Sequence[tuple[str, str]]) -> None:
        """Write (key id, serialised key) pairs, new or changed, in one transaction."""
        statements = tuple((UPSERT_SIGNING_KEY, (kid, key)) for kid, key in keys)
        await self._writer.submit(WriteOperation(statements=statements))

    async def get_or_create_secret(self, name: str, new_value: str) -> str:
        """Return the server's secret of this name; store `new_value` if there is none yet."""
        stored = await self._reader.row("select_secret", (name,))
        if stored:
            return str(stored[0])
        insert_and_read = (("insert_secret", (name, new_value)), ("select_secret", (name,)))
        ((value,),) = await self._writer.submit(WriteOperation(statements=insert_and_read))
        return str(value)
