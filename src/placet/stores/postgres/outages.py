"""Database errors that an operator can solve while the server runs: it is away, full or read-only."""

import asyncio

import asyncpg

from placet.errors import CaseConflict, Unavailable

OUTAGES: tuple[type[BaseException], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.LockNotAvailableError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    OSError,
    asyncio.TimeoutError,
)
RETRIED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Conflicts between transactions, which end when one of them is repeated."""
UNSTORABLE = (asyncpg.DataError, UnicodeEncodeError, OverflowError)
"""A parameter that PostgreSQL cannot store, such as text with a zero byte."""


def is_outage(error: BaseException) -> bool:
    """Return whether the database is at fault, and not the statement."""
    return isinstance(error, OUTAGES) and not isinstance(error, asyncpg.DataError)


def error_for_caller(error: Exception, *, may_be_written: bool = False) -> Exception:
    """Return the exception that the caller of a failed write gets."""
    if is_outage(error):
        outcome = "The write may be lost." if may_be_written else "Nothing was recorded; try again."
        return Unavailable(f"The database is unavailable ({describe(error)}). {outcome}")
    if isinstance(error, asyncpg.UniqueViolationError):
        return CaseConflict()
    return error


def describe(error: BaseException) -> str:
    """Return the error in one line."""
    return " ".join(str(error).split()) or type(error).__name__
