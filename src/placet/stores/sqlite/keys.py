"""API keys, signing keys and secrets in SQLite."""

from collections.abc import Sequence

from placet.ports.key_store import ApiKey
from placet.stores.sqlite import rows
from placet.stores.sqlite.operation import Operation, single
from placet.stores.sqlite.queries import QUERIES
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.writer import Writer

SELECT_API_KEY = QUERIES["select_api_key"]
SELECT_API_KEYS = QUERIES["select_api_keys"]
UPSERT_API_KEY = QUERIES["upsert_api_key"]
SELECT_SIGNING_KEYS = QUERIES["select_signing_keys"]
UPSERT_SIGNING_KEY = QUERIES["upsert_signing_key"]
INSERT_SECRET = QUERIES["insert_secret"]
SELECT_SECRET = QUERIES["select_secret"]


class SqliteKeyStore:
    """The KeyStore over one reader and one writer."""

    _reader: Reader
    _writer: Writer

    async def get_api_key(self, digest: str) -> ApiKey | None:
        """The key with this digest, valid or not."""
        row = self._reader.row(SELECT_API_KEY, (digest,))
        return rows.api_key_from(row) if row else None

    async def list_api_keys(self) -> Sequence[ApiKey]:
        """All keys, oldest first."""
        return [rows.api_key_from(row) for row in self._reader.rows(SELECT_API_KEYS)]

    async def save_api_key(self, key: ApiKey) -> None:
        """Write a key, new or changed; raises CaseConflict when another key has its digest."""
        await self._writer.submit(single(UPSERT_API_KEY, rows.api_key_row(key)))

    async def list_signing_keys(self) -> Sequence[str]:
        """Serialised signing keys, oldest first."""
        return [key for (key,) in self._reader.rows(SELECT_SIGNING_KEYS)]

    async def save_signing_keys(self, keys: Sequence[tuple[str, str]]) -> None:
        """Write (kid, serialised key) pairs, new or changed, in one transaction."""
        statements = tuple((UPSERT_SIGNING_KEY, (kid, key)) for kid, key in keys)
        await self._writer.submit(Operation(statements=statements))

    async def get_or_create_secret(self, name: str, fresh: str) -> str:
        """The server's secret of this name; `fresh` becomes it if there is none yet."""
        kept = self._reader.row(SELECT_SECRET, (name,))
        if kept:
            return str(kept[0])
        either = Operation(statements=((INSERT_SECRET, (name, fresh)), (SELECT_SECRET, (name,))))
        ((value,),) = await self._writer.submit(either)
        return str(value)
