"""Cases in one SQLite file: durable, fast, and nothing to operate."""

from assent.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
