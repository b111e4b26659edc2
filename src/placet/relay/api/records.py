"""Records of one kind as members change them: found, compared with what was seen, written, and told of."""

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
"""All that is kept at the moment of a change."""
P_contra = TypeVar("P_contra", contravariant=True)
S = TypeVar("S")
"""What a record says."""


class AuditNote(Struct, frozen=True, kw_only=True):
    """What the audit tells of a change, besides who made it and which one it was."""

    deed: str
    """Such as `removed the agent b`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class RecordKind(Protocol[P_contra, S]):
    """What tells one kind of record from the others."""

    @property
    def noun(self) -> str:
        """What people call one of them, such as `policy group`."""
        ...

    def find(self, present: P_contra, tenant: str, name: str) -> Versioned[S] | None:
        """The one of this name; raises RelayConflict for one that is not changed here."""
        ...

    def record(self, tenant: str, name: str, held: Versioned[S], now: datetime) -> ConfigRecord:
        """It as it is written."""
        ...

    def describe_save(self, present: P_contra, name: str, value: S) -> AuditNote:
        """What is told when it is made or changed; raises ValidationFailed for what does not fit the rest."""
        ...

    def describe_removal(self, present: P_contra, name: str, value: S) -> AuditNote:
        """What is told when it is removed; raises RelayConflict for what others still need."""
        ...


class Records(Generic[P, S]):
    """Makes, changes and removes records of one kind. What may not be is raised by the plan for it."""

    def __init__(self, keeper: RecordEditor[P], kind: RecordKind[P, S]) -> None:
        self._keeper = keeper
        self._kind = kind

    def get(self, present: P, request: RelayRequest, name: str) -> Versioned[S]:
        """The one of this name; raises CaseNotFound."""
        held = self._kind.find(present, request.member.tenant, name)
        if held is None:
            raise CaseNotFound(f"There is no such {self._kind.noun}.")
        return held

    async def create(self, request: RelayRequest, name: str, plan: Callable[[P], S]) -> Versioned[S]:
        """Write what `plan` makes of the present as a new one."""

        def change(present: P) -> RecordChange[Versioned[S]]:
            return self._saving(request, present, name, Versioned(value=plan(present), rev=1), "CREATED")

        return await self._keeper.change(request.member, change)

    async def update(self, request: RelayRequest, name: str, plan: Callable[[P, S], S]) -> Versioned[S]:
        """Write what `plan` makes of the present and of this one in its place."""

        def change(present: P) -> RecordChange[Versioned[S]]:
            seen = self._get_matching(present, request, name)
            following = Versioned(value=plan(present, seen.value), rev=seen.rev + 1)
            return self._saving(request, present, name, following, "UPDATED")

        return await self._keeper.change(request.member, change)

    async def remove(
        self, request: RelayRequest, name: str, also: Callable[[P], tuple[ConfigRecord, ...]] = lambda _: ()
    ) -> None:
        """Remove this one, and write what has to change with it."""

        def change(present: P) -> RecordChange[None]:
            seen = self._get_matching(present, request, name)
            told = self._kind.describe_removal(present, name, seen.value)
            return RecordChange(
                save=also(present),
                delete=(self._record(request, name, seen),),
                message=f"{request.member.name} {told.deed}.",
                metadata={"operation": "DELETED", **told.metadata},
                result=None,
            )

        await self._keeper.change(request.member, change)

    def _get_matching(self, present: P, request: RelayRequest, name: str) -> Versioned[S]:
        """The one of this name, if it is as the member saw it."""
        held = self.get(present, request, name)
        check_if_match(request.if_match, held.rev)
        return held

    def _saving(
        self, request: RelayRequest, present: P, name: str, held: Versioned[S], operation: str
    ) -> RecordChange[Versioned[S]]:
        told = self._kind.describe_save(present, name, held.value)
        return RecordChange(
            save=(self._record(request, name, held),),
            message=f"{request.member.name} {told.deed}.",
            metadata={"operation": operation, **told.metadata},
            result=held,
        )

    def _record(self, request: RelayRequest, name: str, held: Versioned[S]) -> ConfigRecord:
        return self._kind.record(request.member.tenant, name, held, self._keeper.now())
