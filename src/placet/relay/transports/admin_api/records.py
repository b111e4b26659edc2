"""Read, create, update and remove records, with a revision check and an audit event."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

from placet.errors import CaseNotFound, RelayConflict
from placet.http.conditional import check_if_match
from placet.http.paging import Page, PageQuery
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.relay.record_changes import RecordChange, RecordEditor, Versioned
from placet.relay.registry import (
    RegistryEditor,
    RegistryKey,
    RegistrySnapshot,
    RegistryState,
    StoredRegistry,
    build_record,
    check_tenant_limit,
)
from placet.relay.settings import AgentSettings, CallerSettings, GroupSettings
from placet.relay.transports.admin_api.access import IN_SETTINGS, RelayRequest

P = TypeVar("P")
"""The current state of all records."""
S = TypeVar("S")
"""The value of a record."""
AuditNote = tuple[str, Mapping[str, Any]]
"""The predicate of a sentence for the audit log, such as `removed the agent b`, and the event's metadata."""

KEY_RULE = "Only an administrator may add an API key that does not belong to the tenant yet."
EntryT = TypeVar("EntryT", AgentSettings, CallerSettings, GroupSettings)
V = TypeVar("V")
M = TypeVar("M", bound=Struct)


class Records(ABC, Generic[P, S]):
    """Creates, updates and removes records of one kind. A `plan` raises an error to reject a change."""

    noun: str
    """The name of one record in messages, such as `policy group`."""

    def __init__(self, editor: RecordEditor[P]) -> None:
        self._editor = editor

    @abstractmethod
    def find(self, present: P, tenant: str, name: str) -> Versioned[S] | None:
        """Return the record with this name, or None. Raises RelayConflict if it is in the settings."""

    @abstractmethod
    def build_record(self, tenant: str, name: str, held: Versioned[S], now: datetime) -> ConfigRecord:
        """Return the record for the store."""

    @abstractmethod
    def describe_save(self, present: P, name: str, value: S) -> AuditNote:
        """Describe a creation or change. Raises ValidationFailed if it conflicts with other records."""

    @abstractmethod
    def describe_removal(self, present: P, name: str, value: S) -> AuditNote:
        """Describe a removal. Raises RelayConflict if other records still refer to it."""

    def get(self, present: P, request: RelayRequest, name: str) -> Versioned[S]:
        """Return the record with this name. Raises CaseNotFound."""
        held = self.find(present, request.member.tenant, name)
        if held is None:
            raise CaseNotFound(f"{self.noun.capitalize()} not found.")
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
            summary, metadata = self.describe_removal(present, name, current.value)
            return RecordChange(
                save=also(present),
                delete=(self._build_record(request, name, current),),
                message=f"{request.member.name} {summary}.",
                metadata={"operation": "DELETED", **metadata},
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
        summary, metadata = self.describe_save(present, name, held.value)
        return RecordChange(
            save=(self._build_record(request, name, held),),
            message=f"{request.member.name} {summary}.",
            metadata={"operation": operation, **metadata},
            result=held,
        )

    def _build_record(self, request: RelayRequest, name: str, held: Versioned[S]) -> ConfigRecord:
        return self.build_record(request.member.tenant, name, held, self._editor.now())


RecordOrigin = Annotated[
    Literal["settings", "store"],
    Meta(description="Whether it is in the server's settings file or was registered with this API."),
]
Rev = Annotated[int | None, Meta(description="The revision, for If-Match.")]


class RegistryEntry(Struct, Generic[EntryT], frozen=True, kw_only=True):
    """An agent, caller or group of the registry, and where it is stored."""

    tenant: str
    name: str
    value: EntryT
    origin: Literal["settings", "store"]
    rev: int | None
    snapshot: RegistrySnapshot


def view_entry(model: type[M], entry: RegistryEntry[EntryT], **more: Any) -> M:
    """Return the entry as a `model`, which selects the fields that the API shows; `more` are further ones."""
    common = {"name": entry.name, "tenant_id": entry.tenant, "origin": entry.origin, "rev": entry.rev}
    found = {**asdict(entry.value), **common, **more}
    return model(**{name: found[name] for name in model.__struct_fields__})


class RegistryKind(Struct, Generic[EntryT], frozen=True, kw_only=True):
    """What the records of agents, callers or groups differ in."""

    kind: ConfigKind
    conflict_message: str
    """The error for a name that already exists."""
    verb: str
    """The verb for a saved record in audit events, such as `registered`."""
    name_field: str
    """The field of the name in audit events."""
    get_audit_details: Callable[[EntryT], Mapping[str, Any]]
    """Returns more fields for the audit event of a saved record."""
    get_all: Callable[[RegistrySnapshot], Mapping[RegistryKey, EntryT]]
    """Returns all records of this kind, of the settings and the store."""
    get_stored: Callable[[StoredRegistry], Mapping[RegistryKey, Versioned[EntryT]]]
    """Returns the records of this kind in the store."""


class RegistryRecords(Records[RegistryState, EntryT]):
    """Reads the records of one kind in the settings and the store, and changes those in the store."""

    def __init__(self, editor: RegistryEditor, kind: RegistryKind[EntryT]) -> None:
        super().__init__(editor)
        self.noun = kind.kind
        self._registry = editor.registry
        self._check_entry = editor.check
        self._kind: RegistryKind[EntryT] = kind

    def find(self, present: RegistryState, tenant: str, name: str) -> Versioned[EntryT] | None:
        """See `Records`."""
        if (tenant, name) in self._kind.get_all(present.from_settings):
            raise RelayConflict(IN_SETTINGS)
        return self._kind.get_stored(present.stored).get((tenant, name))

    def build_record(self, tenant: str, name: str, held: Versioned[EntryT], now: datetime) -> ConfigRecord:
        """See `Records`."""
        return build_record(self._kind.kind, (tenant, name), held.value, rev=held.rev, now=now)

    def describe_save(self, present: RegistryState, name: str, value: EntryT) -> AuditNote:
        """See `Records`."""
        details = self._kind.get_audit_details(value)
        return f"{self._kind.verb} the {self.noun} {name}", {self._kind.name_field: name, **details}

    def describe_removal(self, present: RegistryState, name: str, value: EntryT) -> AuditNote:
        """See `Records`."""
        return f"removed the {self.noun} {name}", {self._kind.name_field: name}

    async def list_page(self, request: RelayRequest, view: Callable[[RegistryEntry[EntryT]], V]) -> Page[V]:
        """Return the requested page of a tenant's entries, sorted by name."""
        query, snapshot = request.read_query(PageQuery), await self._registry.get_snapshot()
        names = self._list_names(snapshot, request.member.tenant)
        return query.cut_page(names).map(
            lambda name: view(self._build_entry(snapshot, request.member.tenant, name))
        )

    async def list_all(self, request: RelayRequest) -> list[RegistryEntry[EntryT]]:
        """Return all entries of a tenant, sorted by name."""
        snapshot, tenant = await self._registry.get_snapshot(), request.member.tenant
        return [self._build_entry(snapshot, tenant, name) for name in self._list_names(snapshot, tenant)]

    async def get_entry(self, request: RelayRequest, name: str) -> RegistryEntry[EntryT]:
        """Return the entry with this name. Raises CaseNotFound."""
        snapshot = await self._registry.get_snapshot()
        if (request.member.tenant, name) not in self._kind.get_all(snapshot):
            raise CaseNotFound(f"{self.noun.capitalize()} not found.")
        return self._build_entry(snapshot, request.member.tenant, name)

    async def create_entry(
        self, request: RelayRequest, name: str, value: EntryT, check: Callable[[RegistrySnapshot], None]
    ) -> RegistryEntry[EntryT]:
        """Create an entry, unless `check` raises an error."""
        self._check_entry(name, value)
        key, get_all = (request.member.tenant, name), self._kind.get_all

        def plan(present: RegistryState) -> EntryT:
            if key in get_all(present.merged) or key in self._kind.get_stored(present.stored):
                raise RelayConflict(self._kind.conflict_message)
            check_tenant_limit(get_all(present.merged), request.member.tenant)
            check(present.merged)
            return value

        await self.create(request, name, plan)
        return await self.get_entry(request, name)

    async def update_entry(
        self, request: RelayRequest, name: str, change: Callable[[RegistrySnapshot, EntryT], EntryT]
    ) -> RegistryEntry[EntryT]:
        """Replace the value of an entry with the value that `change` returns."""

        def plan(present: RegistryState, before: EntryT) -> EntryT:
            value = change(present.merged, before)
            self._check_entry(name, value)
            return value

        await self.update(request, name, plan)
        return await self.get_entry(request, name)

    def _list_names(self, snapshot: RegistrySnapshot, tenant: str) -> list[str]:
        return sorted(name for owner, name in self._kind.get_all(snapshot) if owner == tenant)

    def _build_entry(self, snapshot: RegistrySnapshot, tenant: str, name: str) -> RegistryEntry[EntryT]:
        key, registry = (tenant, name), self._registry
        is_in_settings = key in self._kind.get_all(registry.from_settings)
        stored = None if is_in_settings else self._kind.get_stored(registry.stored).get(key)
        return RegistryEntry(
            tenant=tenant,
            name=name,
            value=self._kind.get_all(snapshot)[key],
            origin="settings" if is_in_settings else "store",
            rev=None if stored is None else stored.rev,
            snapshot=snapshot,
        )
