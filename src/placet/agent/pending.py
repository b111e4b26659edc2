"""What an agent is waiting for, kept in a small file: a process that is killed finds all its cases again.

Addresses with tokens and the agent's own credentials are sealed; the key lies in a file beside, readable by
its owner alone, or comes from the environment. Whoever has the database without the key learns only how many
cases wait and until when.
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
from placet.errors import CaseNotSaved, SettingsError
from placet.ports.channel import SentMessage

log = logging.getLogger("placet.agent")
KEY_VARIABLE = "PLACET_AGENT_KEY"
_NONCE_BYTES = 12
BUSY_S = 10.0  # how long to wait for another process that writes
SWITCH_ATTEMPTS = 20
_ORDINARY = 32 * 1024
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
    """A case that has not ended, and what it takes to follow it; `reference` is the agent's name for it."""

    case: FollowedCase
    credentials: dict[str, str] = {}
    reference: str | None = None
    is_notified: bool = False
    """Whether the person has received the link."""
    reminded_up_to: datetime | None = None
    """The last reminder of which its person has heard."""


class ButtonAudience(Struct, frozen=True, kw_only=True):
    """In which messenger a button was put, and who may press it."""

    channel: str
    answerers: tuple[str, ...]


class SavedButton(Struct, frozen=True, kw_only=True):
    """What a reference stands for; `pressable` is None for a button of a time when it was not kept."""

    pending: PendingCase
    action: str
    pressable: ButtonAudience | None = None

    def is_for(self, channel: str, user_id: str) -> bool:
        """Whether this person may press it there, as far as it was kept when it was sent."""
        kept = self.pressable
        return kept is None or (kept.channel == channel and user_id in kept.answerers)


class PendingCases:
    """The cases of one agent; safe to use from several threads and processes."""

    def __init__(self, path: Path | str, *, key: bytes | None = None, busy_s: float = BUSY_S) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._cipher = AESGCM(key if key is not None else _load_key(self._path))
        self._lock = threading.Lock()
        self._connection = _connect(self._path, busy_s)

    def require_room(self) -> None:
        """Raise CaseNotSaved unless a case of ordinary size could be kept right now."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO pending (id, expires_at, sealed) VALUES ('', '', zeroblob(?))", (_ORDINARY,)
            )
            connection.execute("DELETE FROM pending WHERE id = ''")

    def add(self, pending: PendingCase) -> None:
        """Keep a case before its person is told, so that no link is out without someone waiting for it.

        This and all that writes raises CaseNotSaved if the file takes nothing.
        """
        row_id = _row_id(pending.case)
        sealed = self._encrypt(row_id, msgspec.msgpack.encode(pending))
        expires_at = pending.case.expires_at.astimezone(UTC).isoformat()
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO pending (id, expires_at, notified, sealed) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, sealed = excluded.sealed",
                (row_id, expires_at, pending.is_notified, sealed),
            )

    def mark_notified(self, case: FollowedCase) -> None:
        """Note that the person has the link."""
        with self._writing() as connection:
            connection.execute("UPDATE pending SET notified = 1 WHERE id = ?", (_row_id(case),))

    def claim_reminder(self, case: FollowedCase, at: datetime) -> bool:
        """Whether this reminder, or a later one, has not gone out yet; of all who ask, one hears yes."""
        row_id, moment = _row_id(case), at.timestamp()
        with self._writing() as connection:
            claimed = connection.execute(
                "UPDATE pending SET reminded_up_to = ?"
                " WHERE id = ? AND (reminded_up_to IS NULL OR reminded_up_to < ?)",
                (moment, row_id, moment),
            ).rowcount
            kept = connection.execute("SELECT 1 FROM pending WHERE id = ?", (row_id,)).fetchone()
        return bool(claimed) or kept is None

    def remove(self, case: FollowedCase) -> None:
        """Forget a case that has ended."""
        with self._writing() as connection:
            connection.execute("DELETE FROM pending WHERE id = ?", (_row_id(case),))

    def all(self) -> list[PendingCase]:
        """Every case that waits, the most urgent first; raises SettingsError if the key is another one."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT id, notified, sealed, reminded_up_to FROM pending ORDER BY expires_at"
            ).fetchall()
        return [self._decrypt_case(*row) for row in rows]

    # The copies of a question that are out in messengers

    def add_buttons(self, case: FollowedCase, actions: Mapping[str, str], pressable: ButtonAudience) -> None:
        """Keep what each reference stands for, and for whom; raises for a case that is not pending."""
        row_id = _row_id(case)
        sealed = self._encrypt(row_id, msgspec.msgpack.encode(pressable))
        with self._writing() as connection:
            connection.executemany(
                "INSERT INTO button (reference, id, action, pressable) VALUES (?, ?, ?, ?)",
                [(reference, row_id, action, sealed) for reference, action in actions.items()],
            )

    def button(self, reference: str) -> SavedButton | None:
        """What a button stands for, while its case is pending."""
        with self._lock:
            row = self._connection.execute(
                "SELECT id, notified, sealed, reminded_up_to, action, pressable"
                " FROM button JOIN pending USING (id) WHERE reference = ?",
                (reference,),
            ).fetchone()
        if row is None:
            return None
        *case, action, rights = row
        kept = None if rights is None else self._decrypt(row[0], rights)
        return SavedButton(
            pending=self._decrypt_case(*case),
            action=action,
            pressable=None if kept is None else msgspec.msgpack.decode(kept, type=ButtonAudience),
        )

    def add_ticket(self, case: FollowedCase, ticket: SentMessage) -> None:
        """Keep where a card was put."""
        row_id = _row_id(case)
        sealed = self._encrypt(row_id, msgspec.msgpack.encode(ticket))
        with self._writing() as connection:
            connection.execute("INSERT INTO ticket (id, sealed) VALUES (?, ?)", (row_id, sealed))

    def tickets(self, case: FollowedCase) -> list[SentMessage]:
        """Every card of this case, in the order they were sent."""
        row_id = _row_id(case)
        with self._lock:
            cursor = self._connection.execute(
                "SELECT sealed FROM ticket WHERE id = ? ORDER BY number", (row_id,)
            )
            rows = cursor.fetchall()
        return [msgspec.msgpack.decode(self._decrypt(row_id, sealed), type=SentMessage) for (sealed,) in rows]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, self._connection:
                yield self._connection
        except sqlite3.Error as error:
            raise CaseNotSaved(f"Pending cases cannot be kept in {self._path}: {error}.") from error

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
            raise SettingsError(f"{self._path} was sealed with another key, or is damaged.") from None


class SavedCase:
    """One case in the file, if there is one, from before its person is told until it has ended."""

    def __init__(self, cases: PendingCases | None, pending: PendingCase) -> None:
        self._cases = cases
        self._pending = pending

    def begin(self) -> None:
        """Keep it."""
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
        """Forget it; if that cannot be done, its end may be read twice."""
        with self._log_failure():
            if self._cases is not None:
                self._cases.remove(self._pending.case)

    @contextmanager
    def _log_failure(self) -> Iterator[None]:
        try:
            yield
        except CaseNotSaved as error:
            log.warning("%s", error.message)


def _row_id(case: FollowedCase) -> str:
    """Two services may use the same case id."""
    return sha256("\n".join(map(str, (*parse_origin(case.service_url), case.case_id))).encode()).hexdigest()


def _connect(path: Path, busy_s: float) -> sqlite3.Connection:
    try:
        with suppress(FileExistsError):  # untouched then: closing it would drop the locks this process holds
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=busy_s, check_same_thread=False)
        _enable_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(_SCHEMA)
        _add_missing_columns(connection)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"Pending cases cannot be kept in {path}: {error}.") from error
    return connection


def _add_missing_columns(connection: sqlite3.Connection) -> None:
    """Give a file of an earlier time the columns that came later; of two who do it at once, one has."""
    for table, column, kind in (("button", "pressable", "BLOB"), ("pending", "reminded_up_to", "REAL")):
        if _has_column(connection, table, column):
            continue
        try:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        except sqlite3.OperationalError:
            if not _has_column(connection, table, column):
                raise


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return any(one[1] == column for one in connection.execute(f"PRAGMA table_info ({table})"))


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Write ahead. Of two who switch at once one is told that the other is busy, however patient it is."""
    for _ in range(SWITCH_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            connection.execute("BEGIN IMMEDIATE")  # waits for the other, and fails if it never ends
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
        raise SettingsError(f"The key of pending cases cannot be kept in {beside}: {error}.") from error


def _create_key(beside: Path) -> bytes:
    """Written whole and then put in place: of two agents that start at once, both use the first one's."""
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
        raise SettingsError(f"{name} must be 32 bytes as base64.")
    return key


def default_path() -> Path:
    """Where an agent keeps its pending cases unless told otherwise."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path.home() / ".local" / "state"
    return folder / "placet" / "agent.db"
