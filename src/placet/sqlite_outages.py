"""Database errors that an operator can solve while the process runs: a full disk, a lock, a broken device."""

import apsw

SQLITE_OUTAGES = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
)
_DAMAGE = (apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB)
_DAMAGED_READS = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)


def is_damage(error: Exception) -> bool:
    """Return whether the error says that the content of the files is damaged."""
    return (
        getattr(error, "result", None) in _DAMAGE or getattr(error, "extendedresult", None) in _DAMAGED_READS
    )
