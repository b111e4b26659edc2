"""The storage engine for SQLite."""

from placet.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
