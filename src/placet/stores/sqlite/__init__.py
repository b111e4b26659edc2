"""Cases in one SQLite file: durable, fast, and nothing to operate."""

from placet.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
