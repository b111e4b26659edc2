"""Passkeys, their invitations, and verification attempts."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from placet.ports.passkey_store import Passkey, PasskeyInvitation
from placet.ports.verification_store import VerificationAttempt
from placet.stores.sql.operation import WriteOperation, build_single_statement
from placet.stores.sql.reader import SqlReader
from placet.stores.sql.rows import Row, datetime_from, encode, to_micros
from placet.stores.sql.writer import Writer

INSERT_PASSKEY = "insert_passkey"
SELECT_PASSKEY = "select_passkey"
SELECT_PASSKEYS = "select_passkeys"
UPDATE_PASSKEY_COUNTER = "update_passkey_counter"
DELETE_PASSKEY = "delete_passkey"
INSERT_INVITATION = "insert_passkey_invitation"
SELECT_INVITATION = "select_passkey_invitation"
DELETE_INVITATION = "delete_passkey_invitation"
DELETE_EXPIRED_INVITATIONS = "delete_expired_passkey_invitations"
INSERT_ATTEMPT = "insert_verification_attempt"
SELECT_ATTEMPT = "select_verification_attempt"
UPDATE_ATTEMPT = "update_verification_attempt"
DELETE_ATTEMPT = "delete_verification_attempt"
DELETE_EXPIRED_ATTEMPTS = "delete_expired_verification_attempts"

_passkey_from = msgspec.json.Decoder(Passkey).decode
_invitation_from = msgspec.json.Decoder(PasskeyInvitation).decode
_attempt_from = msgspec.json.Decoder(VerificationAttempt).decode


class SqlPasskeyStore:
    """Implements `PasskeyStore`."""

    _reader: SqlReader
    _writer: Writer

    async def add_passkey_invitation(self, invitation: PasskeyInvitation, *, now: datetime) -> None:
        """Write a new invitation, and delete those that have expired."""
        expired = (DELETE_EXPIRED_INVITATIONS, (to_micros(now),))
        row = (invitation.digest, to_micros(invitation.expires_at), encode(invitation))
        await self._writer.submit(WriteOperation(statements=(expired, (INSERT_INVITATION, row))))

    async def get_passkey_invitation(self, digest: str) -> PasskeyInvitation | None:
        """Return the invitation, expired or not; None once it was used."""
        row = await self._reader.row(SELECT_INVITATION, (digest,))
        return _invitation_from(row[0]) if row else None

    async def register_passkey(self, passkey: Passkey, *, invitation: str) -> None:
        """Write a new passkey and delete the invitation with this digest, in one transaction."""
        insert = (INSERT_PASSKEY, (passkey.id, passkey.sign_count, encode(passkey)))
        await self._writer.submit(WriteOperation(guards=((DELETE_INVITATION, (invitation,)), insert)))

    async def get_passkey(self, id: str) -> Passkey | None:
        """Return the passkey, or None if it is unknown or was removed."""
        row = await self._reader.row(SELECT_PASSKEY, (id,))
        return _read_passkey(row) if row else None

    async def list_passkeys(self) -> Sequence[Passkey]:
        """Return all passkeys, oldest first."""
        return [_read_passkey(row) for row in await self._reader.rows(SELECT_PASSKEYS)]

    async def record_passkey_use(self, id: str, *, previous: int, sign_count: int, used_at: datetime) -> None:
        """Write the counter of a passkey that was used; refuse it unless the counter is still `previous`."""
        update = (id, previous, sign_count, to_micros(used_at))
        await self._writer.submit(build_single_statement(UPDATE_PASSKEY_COUNTER, update, guarded=True))

    async def remove_passkey(self, id: str) -> None:
        """Delete a passkey. Raises CaseConflict if there is none."""
        await self._writer.submit(build_single_statement(DELETE_PASSKEY, (id,), guarded=True))


class SqlVerificationStore:
    """Implements `VerificationStore`."""

    _reader: SqlReader
    _writer: Writer

    async def add_verification_attempt(self, attempt: VerificationAttempt, *, most: int) -> None:
        """Write a new attempt, and delete those that have expired."""
        expired = (DELETE_EXPIRED_ATTEMPTS, (to_micros(attempt.created_at),))
        row = (attempt.id, attempt.case_id, attempt.version, to_micros(attempt.expires_at), encode(attempt))
        await self._writer.submit(WriteOperation(statements=(expired,)))
        await self._writer.submit(build_single_statement(INSERT_ATTEMPT, (*row, most), guarded=True))

    async def get_verification_attempt(self, id: str) -> VerificationAttempt | None:
        """Return the attempt, expired or not; None once it was deleted."""
        row = await self._reader.row(SELECT_ATTEMPT, (id,))
        return _attempt_from(row[0]) if row else None

    async def update_verification_attempt(self, attempt: VerificationAttempt) -> None:
        """Write the next version of an attempt. Raises CaseConflict unless the stored one precedes it."""
        row = (attempt.id, attempt.version - 1, attempt.version, encode(attempt))
        await self._writer.submit(build_single_statement(UPDATE_ATTEMPT, row, guarded=True))

    async def delete_verification_attempt(self, id: str) -> None:
        """Delete an attempt, if it exists."""
        await self._writer.submit(build_single_statement(DELETE_ATTEMPT, (id,)))


def _read_passkey(row: Row) -> Passkey:
    passkey, counter, used_at = row
    return replace(_passkey_from(passkey), sign_count=counter, used_at=datetime_from(used_at))
