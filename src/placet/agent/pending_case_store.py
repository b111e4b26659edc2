"""Store an agent's pending cases in a SQLite file, so that a restarted process can resume them.

URLs with tokens and the agent's credentials are encrypted. The key is in a file beside the database, readable
only by its owner, or in the environment. Without the key the database reveals only how many cases are pending
and until when.
"""

import logging
import os
import sqlite3
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from placet.agent.service_responses import FollowedCase
from placet.agent.trust import parse_origin
from placet.errors import CaseFileUnavailable, CaseNotSaved, SettingsError
from placet.ports.channel import SentMessage

log = logging.getLogger("placet.agent")
KEY_VARIABLE = "PLACET_AGENT_KEY"
_NONCE_BYTES = 12
LOCK_TIMEOUT_S = 10.0  # how long to wait for another process that writes
SWITCH_ATTEMPTS = 20
_ORDINARY_CASE_BYTES = 32 * 1024
_SCHEMA = """
CREATE TABLE IF NOT EXISTS pending (
    id TEXT PRIMARY KEY,
    expires_at TEXT NOT NULL,
    notified INTEGER NOT NULL DEFAULT 0,
    sealed BLOB NOT NULL,
    reminded_up_to REAL
) STRICT;
CREATE TABLE IF NOT EXISTS button (
    reference TEXT PRIMARY KEY,
    id TEXT NOT NULL REFERENCES pending (id) ON DELETE CASCADE,
    action TEXT NOT NULL,
    pressable BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS button_of_case ON button (id);
CREATE TABLE IF NOT EXISTS ticket (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL REFERENCES pending (id) ON DELETE CASCADE,
    sealed BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS ticket_of_case ON ticket (id);
"""


class PendingCase(Struct, frozen=True, kw_only=True):
    """A case that has not ended, with what is needed to follow it; `reference` is the agent's own label."""

    case: FollowedCase
    credentials: dict[str, str] = {}
    reference: str | None = None
    is_notified: bool = False
    """Whether the person has received the link."""
    reminded_up_to: datetime | None = None
    """The last reminder that was sent to the person."""
    requires_signature: bool = False
    """Whether the decision counts only with a valid signature, for every agent that resumes the case."""


class ButtonAudience(Struct, frozen=True, kw_only=True):
    """The messenger that a button was sent to, and the users who may press it."""

    channel: str
    answerers: tuple[str, ...]


class SavedButton(Struct, frozen=True, kw_only=True):
    """The case and action of a button; `pressable` is None for one stored by an earlier version."""

    pending: PendingCase
    action: str
    pressable: ButtonAudience | None = None

    def is_for(self, channel: str, user_id: str) -> bool:
        """Return whether this user may press the button; True if its audience was not stored."""
        audience = self.pressable
        return audience is None or (audience.channel == channel and user_id in audience.answerers)


class PendingCases:
    """The cases of one agent; safe to use from several threads and processes.

    `lock_timeout_s` is how long a read or write waits for a lock of another process.
    """

    def __init__(
        self, path: Path | str, *, key: bytes | None = None, lock_timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._cipher = AESGCM(key if key is not None else _load_key(self._path))
        self._lock = threading.Lock()
        self._connection = _connect(self._path, lock_timeout_s)

    def require_room(self) -> None:
        """Raise CaseNotSaved unless a case of ordinary size can be stored now."""
        with self._open_transaction() as connection:
            connection.execute(
                "INSERT INTO pending (id, expires_at, sealed) VALUES ('', '', zeroblob(?))",
                (_ORDINARY_CASE_BYTES,),
            )
            connection.execute("DELETE FROM pending WHERE id = ''")

    def add(self, pending: PendingCase) -> None:
        """Store a case before its link is sent, so that an agent waits for every link that was sent.

        Every method that writes raises CaseNotSaved if the file cannot be written.
        """
        row_id = _build_row_id(pending.case)
        sealed = self._encrypt(row_id, msgspec.msgpack.encode(pending))
        expires_at = pending.case.expires_at.astimezone(UTC).isoformat()
        with self._open_transaction() as connection:
            connection.execute(
                "INSERT INTO pending (id, expires_at, notified, sealed) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, sealed = excluded.sealed",
                (row_id, expires_at, pending.is_notified, sealed),
            )

    def mark_notified(self, case: FollowedCase) -> None:
        """Record that the person has the link."""
        with self._open_transaction() as connection:
            connection.execute("UPDATE pending SET notified = 1 WHERE id = ?", (_build_row_id(case),))

    def claim_reminder(self, case: FollowedCase, at: datetime) -> bool:
        """Claim a reminder; return False if it or a later one was claimed before."""
        row_id, moment = _build_row_id(case), at.timestamp()
        with self._open_transaction() as connection:
            claimed = connection.execute(
                "UPDATE pending SET reminded_up_to = ?"
                " WHERE id = ? AND (reminded_up_to IS NULL OR reminded_up_to < ?)",
                (moment, row_id, moment),
            ).rowcount
            row = connection.execute("SELECT 1 FROM pending WHERE id = ?", (row_id,)).fetchone()
        return bool(claimed) or row is None

    def remove(self, case: FollowedCase) -> None:
        """Delete a case that has ended."""
        with self._open_transaction() as connection:
            connection.execute("DELETE FROM pending WHERE id = ?", (_build_row_id(case),))

    def list_pending(self) -> list[PendingCase]:
        """Return all pending cases, the most urgent first; raises SettingsError if the key is wrong."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT id, notified, sealed, reminded_up_to FROM pending ORDER BY expires_at"
            ).fetchall()
        return [self._decrypt_case(*row) for row in rows]

    # The messages of a case in messengers

    def add_buttons(self, case: FollowedCase, actions: Mapping[str, str], pressable: ButtonAudience) -> None:
        """Store the action and audience of each button; raises for a case that is not pending."""
        row_id = _build_row_id(case)
        sealed = self._encrypt(row_id, msgspec.msgpack.encode(pressable))
        with self._open_transaction() as connection:
            connection.executemany(
                "INSERT INTO button (reference, id, action, pressable) VALUES (?, ?, ?, ?)",
                [(reference, row_id, action, sealed) for reference, action in actions.items()],
            )

    def find_button(self, reference: str) -> SavedButton | None:
        """Return a button by its reference, or None unless its case is pending."""
        with self._lock:
            row = self._connection.execute(
                "SELECT id, notified, sealed, reminded_up_to, action, pressable"
                " FROM button JOIN pending USING (id) WHERE reference = ?",
                (reference,),
            ).fetchone()
        if row is None:
            return None
        *case, action, sealed = row
        audience = None if sealed is None else self._decrypt(row[0], sealed)
        return SavedButton(
            pending=self._decrypt_case(*case),
            action=action,
            pressable=None if audience is None else msgspec.msgpack.decode(audience, type=ButtonAudience),
        )

    def add_message(self, case: FollowedCase, message: SentMessage) -> None:
        """Store the message that shows this case, so that it can be updated."""
        row_id = _build_row_id(case)
        sealed = self._encrypt(row_id, msgspec.msgpack.encode(message))
        with self._open_transaction() as connection:
            connection.execute("INSERT INTO ticket (id, sealed) VALUES (?, ?)", (row_id, sealed))

    def list_messages(self, case: FollowedCase) -> list[SentMessage]:
        """Return the messages that show this case, in the order they were sent."""
        row_id = _build_row_id(case)
        with self._lock:
            cursor = self._connection.execute(
                "SELECT sealed FROM ticket WHERE id = ? ORDER BY number", (row_id,)
            )
            rows = cursor.fetchall()
        return [msgspec.msgpack.decode(self._decrypt(row_id, sealed), type=SentMessage) for (sealed,) in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _open_transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, self._connection:
                yield self._connection
        except sqlite3.Error as error:
            raise CaseNotSaved(f"The pending case could not be saved in {self._path}: {error}.") from error

    def _encrypt(self, row_id: str, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, row_id.encode())

    def _decrypt_case(
        self, row_id: str, notified: int, sealed: bytes, reminded_up_to: float | None
    ) -> PendingCase:
        pending = msgspec.msgpack.decode(self._decrypt(row_id, sealed), type=PendingCase)
        reminded = None if reminded_up_to is None else datetime.fromtimestamp(reminded_up_to, UTC)
        return msgspec.structs.replace(pending, is_notified=bool(notified), reminded_up_to=reminded)

    def _decrypt(self, row_id: str, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], row_id.encode())
        except (InvalidTag, ValueError):
            raise SettingsError(f"{self._path} was encrypted with another key, or is damaged.") from None


class SavedCase:
    """One case in the file, if the agent has a file, until the case has ended."""

    def __init__(self, cases: PendingCases | None, pending: PendingCase) -> None:
        self._cases = cases
        self._pending = pending

    def begin(self) -> None:
        """Store the case."""
        if self._cases is not None:
            self._cases.add(self._pending)

    def mark_notified(self) -> None:
        """Record that the person has the link; if that fails, they may get it twice."""
        with self._log_failure():
            if self._cases is not None:
                self._cases.mark_notified(self._pending.case)

    def claim_reminder(self, at: datetime) -> bool:
        """Return whether this reminder is to be sent now; if that cannot be recorded, it may go out twice."""
        with self._log_failure():
            return self._cases is None or self._cases.claim_reminder(self._pending.case, at)
        return True

    def end(self) -> None:
        """Delete the case; if that fails, its outcome may be returned twice."""
        with self._log_failure():
            if self._cases is not None:
                self._cases.remove(self._pending.case)

    @contextmanager
    def _log_failure(self) -> Iterator[None]:
        try:
            yield
        except CaseNotSaved as error:
            log.warning("pending_case_not_saved error=%s", error.message)


def _build_row_id(case: FollowedCase) -> str:
    """Return an id that includes the service, since two services may use the same case id."""
    return sha256("\n".join(map(str, (*parse_origin(case.service_url), case.case_id))).encode()).hexdigest()


def _connect(path: Path, lock_timeout_s: float) -> sqlite3.Connection:
    try:
        with suppress(FileExistsError):  # do not open it: closing it would drop locks of this process
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=lock_timeout_s, check_same_thread=False)
        _enable_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(_SCHEMA)
        _add_missing_columns(connection)
    except (OSError, sqlite3.Error) as error:
        raise CaseFileUnavailable(f"Pending cases cannot be stored in {path}: {error}.") from error
    return connection


def _add_missing_columns(connection: sqlite3.Connection) -> None:
    """Add the columns that a file of an earlier version lacks; two processes may do it at once."""
    for table, column, sql_type in (("button", "pressable", "BLOB"), ("pending", "reminded_up_to", "REAL")):
        if _has_column(connection, table, column):
            continue
        try:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {sql_type}")
        except sqlite3.OperationalError:
            if not _has_column(connection, table, column):
                raise


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return any(one[1] == column for one in connection.execute(f"PRAGMA table_info ({table})"))


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Enable write-ahead logging; of two processes that do it at once, one gets an error and retries."""
    for _ in range(SWITCH_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            connection.execute("BEGIN IMMEDIATE")  # waits for the other process, within the timeout
            connection.execute("COMMIT")
        else:
            return
    raise sqlite3.OperationalError("database is locked")


def _load_key(path: Path) -> bytes:
    named = os.environ.get(KEY_VARIABLE)
    if named is not None:
        return _decode_key(named, KEY_VARIABLE)
    beside = path.with_name(path.name + ".key")
    try:
        return (
            _decode_key(beside.read_text().strip(), str(beside)) if beside.exists() else _create_key(beside)
        )
    except OSError as error:
        raise CaseFileUnavailable(
            f"The key of pending cases cannot be stored in {beside}: {error}."
        ) from error


def _create_key(beside: Path) -> bytes:
    """Create the key file atomically; two agents that start at once use the same key."""
    written = beside.with_name(f"{beside.name}.{os.getpid()}.{threading.get_ident()}")
    with os.fdopen(os.open(written, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(urlsafe_b64encode(AESGCM.generate_key(bit_length=256)).decode())
    try:
        os.link(written, beside)
    except FileExistsError:
        pass
    finally:
        written.unlink()
    return _decode_key(beside.read_text().strip(), str(beside))


def _decode_key(text: str, name: str) -> bytes:
    try:
        key = urlsafe_b64decode(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError(f"{name} must be 32 bytes, encoded as base64.")
    return key


def get_default_path() -> Path:
    """Return the default path of the file of pending cases."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path.home() / ".local" / "state"
    return folder / "placet" / "agent.db"
