"""Cases in one SQLite file: durable, fast, and nothing to operate."""

from assent.stores.sqlite.migrate import migrate, schema_state
from assent.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "migrate", "schema_state"]
