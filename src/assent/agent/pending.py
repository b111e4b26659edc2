"""What an agent is waiting for, kept in a small file: a process that is killed finds all its cases again.

Addresses with tokens and the agent's own credentials are sealed; the key lies in a file beside, readable by
its owner alone, or comes from the environment. Whoever has the database without the key learns only how many
cases wait and until when.
"""

import os
import sqlite3
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from assent.agent.reading import FollowedCase
from assent.agent.trust import origin
from assent.errors import SettingsError

KEY_VARIABLE = "ASSENT_AGENT_KEY"
_NONCE_BYTES = 12
_BUSY_S = 10.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS pending (
    id TEXT PRIMARY KEY,
    expires_at TEXT NOT NULL,
    told INTEGER NOT NULL DEFAULT 0,
    sealed BLOB NOT NULL
) STRICT
"""


class PendingCase(Struct, frozen=True, kw_only=True):
    """A case that has not ended, and what it takes to follow it; `reference` is the agent's name for it."""

    case: FollowedCase
    credentials: dict[str, str] = {}
    reference: str | None = None
    told: bool = False


class PendingCases:
    """The cases of one agent; safe to use from several threads and processes."""

    def __init__(self, path: Path | str, *, key: bytes | None = None) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._cipher = AESGCM(key if key is not None else _key(self._path))
        self._lock = threading.Lock()
        self._connection = _connect(self._path)

    def add(self, pending: PendingCase) -> None:
        """Keep a case before its person is told, so that no link is out without someone waiting for it."""
        row_id = _row_id(pending.case)
        sealed = self._seal(row_id, msgspec.msgpack.encode(pending))
        expires_at = pending.case.expires_at.astimezone(UTC).isoformat()
        with self._writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO pending (id, expires_at, told, sealed) VALUES (?, ?, ?, ?)",
                (row_id, expires_at, pending.told, sealed),
            )

    def mark_told(self, case: FollowedCase) -> None:
        """Note that the person has the link."""
        with self._writing() as connection:
            connection.execute("UPDATE pending SET told = 1 WHERE id = ?", (_row_id(case),))

    def remove(self, case: FollowedCase) -> None:
        """Forget a case that has ended."""
        with self._writing() as connection:
            connection.execute("DELETE FROM pending WHERE id = ?", (_row_id(case),))

    def all(self) -> list[PendingCase]:
        """Every case that waits, the most urgent first; raises SettingsError if the key is another one."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT id, told, sealed FROM pending ORDER BY expires_at"
            ).fetchall()
        return [self._opened(row_id, bool(told), sealed) for row_id, told, sealed in rows]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._connection:
            yield self._connection

    def _seal(self, row_id: str, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, row_id.encode())

    def _opened(self, row_id: str, told: bool, sealed: bytes) -> PendingCase:
        try:
            plain = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], row_id.encode())
            pending = msgspec.msgpack.decode(plain, type=PendingCase)
        except (InvalidTag, msgspec.DecodeError, ValueError):
            raise SettingsError(f"{self._path} was sealed with another key, or is damaged.") from None
        return msgspec.structs.replace(pending, told=told)


class KeptCase:
    """One case in the file, if there is one, from before its person is told until it has ended."""

    def __init__(self, cases: PendingCases | None, pending: PendingCase) -> None:
        self._cases = cases
        self._pending = pending

    def begin(self) -> None:
        """Keep it."""
        if self._cases is not None:
            self._cases.add(self._pending)

    def told(self) -> None:
        """Its person has the link."""
        if self._cases is not None:
            self._cases.mark_told(self._pending.case)

    def end(self) -> None:
        """Forget it."""
        if self._cases is not None:
            self._cases.remove(self._pending.case)


def _row_id(case: FollowedCase) -> str:
    """Two services may use the same case id."""
    return sha256("\n".join(map(str, (*origin(case.service_url), case.case_id))).encode()).hexdigest()


def _connect(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_SCHEMA)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"Pending cases cannot be kept in {path}: {error}.") from error
    return connection


def _key(path: Path) -> bytes:
    named = os.environ.get(KEY_VARIABLE)
    if named is not None:
        return _decoded(named, KEY_VARIABLE)
    beside = path.with_name(path.name + ".key")
    try:
        return _decoded(beside.read_text().strip(), str(beside)) if beside.exists() else _new_key(beside)
    except OSError as error:
        raise SettingsError(f"The key of pending cases cannot be kept in {beside}: {error}.") from error


def _new_key(beside: Path) -> bytes:
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
    return _decoded(beside.read_text().strip(), str(beside))


def _decoded(text: str, name: str) -> bytes:
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
    return folder / "assent" / "agent.db"
