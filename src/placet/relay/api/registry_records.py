"""What agents, callers and groups have in common: some stand in the settings, others are enrolled."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

from placet.errors import CaseNotFound, RelayConflict
from placet.http.paging import Page, PageQuery
from placet.ports.config_store import ConfigKind, ConfigRecord
from placet.relay.api.access import IN_SETTINGS, RelayRequest
from placet.relay.api.records import AuditNote, Records
from placet.relay.record_changes import Versioned
from placet.relay.registry.records import StoredRegistry, build_record
from placet.relay.registry.registry_editor import RegistryEditor, RegistryState, check_tenant_limit
from placet.relay.registry.registry_snapshot import RegistryKey, RegistrySnapshot
from placet.relay.settings import AgentSettings, CallerSettings, GroupSettings

BRINGS_KEYS = "Only an administrator brings a key into a tenant that does not belong to it yet."
Origin = Annotated[
    Literal["settings", "store"],
    Meta(description="Whether it stands in the server's settings file, or was registered here."),
]
Rev = Annotated[int | None, Meta(description="How often it changed, for If-Match.")]
S = TypeVar("S", AgentSettings, CallerSettings, GroupSettings)
V = TypeVar("V")
M = TypeVar("M", bound=Struct)


class RegistryEntry(Struct, Generic[S], frozen=True, kw_only=True):
    """Somebody in the registry, and where they stand."""

    tenant: str
    name: str
    value: S
    origin: Literal["settings", "store"]
    rev: int | None
    everyone: RegistrySnapshot


def view_entry(model: type[M], entry: RegistryEntry[S]) -> M:
    """Somebody as the API shows them: who they are, where they stand, and what `model` asks of the rest."""
    asked = set(model.__struct_fields__)
    settings = {name: value for name, value in asdict(entry.value).items() if name in asked}
    place = {"name": entry.name, "tenant_id": entry.tenant, "origin": entry.origin, "rev": entry.rev}
    return model(**settings, **place)


class RegistryKind(Struct, Generic[S], frozen=True, kw_only=True):
    """Agents, callers or groups: where they are found, and how the audit speaks of them."""

    kind: ConfigKind
    taken: str
    """What is said to whoever wants a name that somebody has."""
    deed: str
    """What somebody did who saved one: `registered`, say."""
    called: str
    """Under which word the audit keeps their names."""
    details: Callable[[S], Mapping[str, Any]]
    """What else the audit keeps of one that is saved."""
    there: Callable[[RegistrySnapshot], Mapping[RegistryKey, S]]
    enrolled: Callable[[StoredRegistry], Mapping[RegistryKey, Versioned[S]]]

    @property
    def noun(self) -> str:
        """See `Kind`."""
        return self.kind

    def find(self, present: RegistryState, tenant: str, name: str) -> Versioned[S] | None:
        """See `Kind`."""
        if (tenant, name) in self.there(present.settled):
            raise RelayConflict(IN_SETTINGS)
        return self.enrolled(present.enrolled).get((tenant, name))

    def record(self, tenant: str, name: str, held: Versioned[S], now: datetime) -> ConfigRecord:
        """See `Kind`."""
        return build_record(self.kind, (tenant, name), held.value, rev=held.rev, now=now)

    def describe_save(self, present: RegistryState, name: str, value: S) -> AuditNote:
        """See `Kind`."""
        return AuditNote(
            deed=f"{self.deed} the {self.noun} {name}",
            metadata={self.called: name, **self.details(value)},
        )

    def describe_removal(self, present: RegistryState, name: str, value: S) -> AuditNote:
        """See `Kind`."""
        return AuditNote(deed=f"removed the {self.noun} {name}", metadata={self.called: name})


class RegistryRecords(Generic[S]):
    """Everyone of one kind: looked at wherever they stand, and changed where they are enrolled."""

    def __init__(self, editor: RegistryEditor, kind: RegistryKind[S]) -> None:
        self._editor = editor
        self._kind: RegistryKind[S] = kind
        self._records: Records[RegistryState, S] = Records(editor, kind)

    async def page(self, request: RelayRequest, view: Callable[[RegistryEntry[S]], V]) -> Page[V]:
        """The page of a tenant's own that a query asks for, by name."""
        asked, everyone = request.read_query(PageQuery), await self._editor.members.current()
        names = self._names(everyone, request.member.tenant)
        return asked.cut_page(names).map(
            lambda name: view(self._entry(everyone, request.member.tenant, name))
        )

    async def every(self, request: RelayRequest) -> list[RegistryEntry[S]]:
        """All of a tenant's own, by name."""
        everyone, tenant = await self._editor.members.current(), request.member.tenant
        return [self._entry(everyone, tenant, name) for name in self._names(everyone, tenant)]

    async def one(self, request: RelayRequest, name: str) -> RegistryEntry[S]:
        """The one of this name; raises CaseNotFound."""
        everyone = await self._editor.members.current()
        if (request.member.tenant, name) not in self._kind.there(everyone):
            raise CaseNotFound(f"There is no such {self._kind.noun}.")
        return self._entry(everyone, request.member.tenant, name)

    async def create(
        self, request: RelayRequest, name: str, value: S, check: Callable[[RegistrySnapshot], None]
    ) -> RegistryEntry[S]:
        """Enrol somebody new, unless `check` raises something against it."""
        self._editor.check(name, value)
        key, there = (request.member.tenant, name), self._kind.there

        def plan(present: RegistryState) -> S:
            if key in there(present.everyone) or key in self._kind.enrolled(present.enrolled):
                raise RelayConflict(self._kind.taken)
            check_tenant_limit(there(present.everyone), request.member.tenant)
            check(present.everyone)
            return value

        await self._records.create(request, name, plan)
        return await self.one(request, name)

    async def replace(
        self, request: RelayRequest, name: str, value: S, check: Callable[[RegistrySnapshot, S], None]
    ) -> RegistryEntry[S]:
        """Put this in the place of what was there, unless `check` raises something against it."""
        self._editor.check(name, value)

        def plan(everyone: RegistrySnapshot, before: S) -> S:
            check(everyone, before)
            return value

        return await self.amend(request, name, plan)

    async def amend(
        self, request: RelayRequest, name: str, plan: Callable[[RegistrySnapshot, S], S]
    ) -> RegistryEntry[S]:
        """Put what `plan` makes of what was there in its place."""
        await self._records.update(request, name, lambda present, before: plan(present.everyone, before))
        return await self.one(request, name)

    async def remove(
        self,
        request: RelayRequest,
        name: str,
        also: Callable[[StoredRegistry], tuple[ConfigRecord, ...]] = lambda _: (),
    ) -> None:
        """Remove somebody, and write what has to change with it."""
        await self._records.remove(request, name, lambda present: also(present.enrolled))

    def _names(self, everyone: RegistrySnapshot, tenant: str) -> list[str]:
        return sorted(name for home, name in self._kind.there(everyone) if home == tenant)

    def _entry(self, everyone: RegistrySnapshot, tenant: str, name: str) -> RegistryEntry[S]:
        key, members = (tenant, name), self._editor.members
        settled = key in self._kind.there(members.settled)
        kept = None if settled else self._kind.enrolled(members.enrolled).get(key)
        return RegistryEntry(
            tenant=tenant,
            name=name,
            value=self._kind.there(everyone)[key],
            origin="settings" if settled else "store",
            rev=None if kept is None else kept.rev,
            everyone=everyone,
        )
