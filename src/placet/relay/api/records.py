"""Create, update and remove records of one kind, with a revision check and an audit event."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from placet.errors import CaseNotFound
from placet.http.conditional import check_if_match
from placet.ports.config_store import ConfigRecord
from placet.relay.api.access import RelayRequest
from placet.relay.record_changes import RecordChange, RecordEditor, Versioned

P = TypeVar("P")
"""The current state of all records."""
P_contra = TypeVar("P_contra", contravariant=True)
S = TypeVar("S")
"""The value of a record."""


class AuditNote(Struct, frozen=True, kw_only=True):
    """The description of a change for the audit log, without the member and the operation."""

    summary: str
    """The predicate of a sentence, such as `removed the agent b`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class RecordKind(Protocol[P_contra, S]):
    """Finds, encodes and describes records of one kind."""

    @property
    def noun(self) -> str:
        """The name of one record in messages, such as `policy group`."""
        ...

    def find(self, present: P_contra, tenant: str, name: str) -> Versioned[S] | None:
        """Return the record with this name, or None. Raises RelayConflict if it is in the settings."""
        ...

    def record(self, tenant: str, name: str, held: Versioned[S], now: datetime) -> ConfigRecord:
        """Return the record for the store."""
        ...

    def describe_save(self, present: P_contra, name: str, value: S) -> AuditNote:
        """Describe a creation or change. Raises ValidationFailed if it conflicts with other records."""
        ...

    def describe_removal(self, present: P_contra, name: str, value: S) -> AuditNote:
        """Describe a removal. Raises RelayConflict if other records still refer to it."""
        ...


class Records(Generic[P, S]):
    """Creates, updates and removes records of one kind. A `plan` raises an error to reject a change."""

    def __init__(self, editor: RecordEditor[P], kind: RecordKind[P, S]) -> None:
        self._editor = editor
        self._kind = kind

    def get(self, present: P, request: RelayRequest, name: str) -> Versioned[S]:
        """Return the record with this name. Raises CaseNotFound."""
        held = self._kind.find(present, request.member.tenant, name)
        if held is None:
            raise CaseNotFound(f"{self._kind.noun.capitalize()} not found.")
        return held

    async def create(self, request: RelayRequest, name: str, plan: Callable[[P], S]) -> Versioned[S]:
        """Save the value that `plan` returns as a new record."""

        def change(present: P) -> RecordChange[Versioned[S]]:
            return self._build_save(request, present, name, Versioned(value=plan(present), rev=1), "CREATED")

        return await self._editor.change(request.member, change)

    async def update(self, request: RelayRequest, name: str, plan: Callable[[P, S], S]) -> Versioned[S]:
        """Replace the value of a record with the value that `plan` returns."""

        def change(present: P) -> RecordChange[Versioned[S]]:
            current = self._get_matching(present, request, name)
            updated = Versioned(value=plan(present, current.value), rev=current.rev + 1)
            return self._build_save(request, present, name, updated, "UPDATED")

        return await self._editor.change(request.member, change)

    async def remove(
        self, request: RelayRequest, name: str, also: Callable[[P], tuple[ConfigRecord, ...]] = lambda _: ()
    ) -> None:
        """Remove a record, and save the related records that `also` returns."""

        def change(present: P) -> RecordChange[None]:
            current = self._get_matching(present, request, name)
            note = self._kind.describe_removal(present, name, current.value)
            return RecordChange(
                save=also(present),
                delete=(self._build_record(request, name, current),),
                message=f"{request.member.name} {note.summary}.",
                metadata={"operation": "DELETED", **note.metadata},
                result=None,
            )

        await self._editor.change(request.member, change)

    def _get_matching(self, present: P, request: RelayRequest, name: str) -> Versioned[S]:
        """Return the record with this name if its revision matches `If-Match`."""
        held = self.get(present, request, name)
        check_if_match(request.if_match, held.rev)
        return held

    def _build_save(
        self, request: RelayRequest, present: P, name: str, held: Versioned[S], operation: str
    ) -> RecordChange[Versioned[S]]:
        note = self._kind.describe_save(present, name, held.value)
        return RecordChange(
            save=(self._build_record(request, name, held),),
            message=f"{request.member.name} {note.summary}.",
            metadata={"operation": operation, **note.metadata},
            result=held,
        )

    def _build_record(self, request: RelayRequest, name: str, held: Versioned[S]) -> ConfigRecord:
        return self._kind.record(request.member.tenant, name, held, self._editor.now())
