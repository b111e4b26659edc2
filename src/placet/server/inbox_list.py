"""What the inbox lists: a page of cases in sight, sifted by kind and words, and where the next begins."""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from placet.cases.case import Case, Offer
from placet.desk.inbox_scope import InboxScope
from placet.desk.review_desk import ReviewDesk
from placet.pages.view import InboxRow
from placet.ports.inbox_store import InboxCursor, Owner
from placet.reviews.registry import SAMPLES, load_review_type

A_PAGE = 25
AT_ONCE = 100
LOOKED_AT = 500
"""So many cases are looked at for one page of what was asked for; then the person says whether to go on."""
OTHER = "other"
KINDS = (*SAMPLES, OTHER)
LONGEST_WORDS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class InboxQuery(Struct, frozen=True, kw_only=True):
    """Which cases, as the page's address says."""

    decided: bool = False
    kind: str = ""
    words: str = ""
    after: InboxCursor | None = None

    @property
    def sifts(self) -> bool:
        """Whether some of what is in sight is left out."""
        return bool(self.kind or self.words)

    def fits(self, offer: Offer) -> bool:
        """Whether this is one of those asked for."""
        if self.kind and self.kind != (kind_name(offer) if not offer.type.startswith("x-") else OTHER):
            return False
        text = " ".join([offer.prompt, offer.message, offer.service or "", offer.agent or "", offer.type])
        return all(word in text.casefold() for word in self.words.casefold().split())


class InboxPage(Struct, frozen=True, kw_only=True):
    """One page."""

    rows: tuple[InboxRow, ...]
    next: InboxCursor | None = None
    """Where to go on; None: that was all."""
    versions: str = ""
    """Changes when anything on the page does."""


def read_asked(query: Mapping[str, str]) -> InboxQuery:
    """What an address asks for; whatever it cannot mean is left out."""
    kind = query.get("kind", "")
    return InboxQuery(
        decided=query.get("show") == "decided",
        kind=kind if kind in KINDS else "",
        words=" ".join(query.get("words", "").split())[:LONGEST_WORDS],
        after=_read_place(query.get("after", "")),
    )


def write_place(place: InboxCursor) -> str:
    """A place as it stands in an address."""
    return f"{(place.at - _EPOCH) // _MICROSECOND}.{place.case_id}"


def _read_place(text: str) -> InboxCursor | None:
    moment, _, case_id = text.partition(".")
    if not (moment.isascii() and moment.isdigit() and len(moment) < 18 and case_id):
        return None
    return InboxCursor(at=_EPOCH + int(moment) * _MICROSECOND, case_id=case_id)


class InboxList:
    """Reads pages of cases. Nothing out of sight is ever asked for."""

    def __init__(self, desk: ReviewDesk) -> None:
        self._desk = desk

    async def page(self, sight: InboxScope, asked: InboxQuery) -> InboxPage:
        """What this person may see of what was asked for."""
        rows: list[tuple[Case, Offer]] = []
        looked, last = 0, None
        async for case, offer in self._cases(await self._owners(sight), asked):
            if len(rows) == A_PAGE or looked == LOOKED_AT:
                return build_entry(rows, asked, next=last)
            looked += 1
            last = _place(case)
            if asked.fits(offer):
                rows.append((case, offer))
        return build_entry(rows, asked, next=None)

    async def _owners(self, sight: InboxScope) -> Collection[Owner]:
        known = await self._desk.store.list_owners() if sight.everyone else (sight.own, sight.holds)
        return [owner for owner in known if sight.sees(owner)]

    async def _cases(self, owners: Collection[Owner], asked: InboxQuery) -> AsyncIterator[tuple[Case, Offer]]:
        after, store = asked.after, self._desk.store
        limit = AT_ONCE if asked.sifts else A_PAGE + 1
        while True:
            if asked.decided:
                found = await store.list_closed_cases(owners, after=after, limit=limit)
            else:
                found = await store.list_waiting_cases(owners, now=self._desk.now(), after=after, limit=limit)
            for one in found:
                yield one
            if len(found) < limit:
                return
            after = _place(found[-1][0])


def kind_name(offer: Offer) -> str:
    """What sort of question this is: a type, or one of the sorts that a type has."""
    kind = load_review_type(offer)
    return next((name for name, one in SAMPLES.items() if one is kind), offer.type)


def _place(case: Case) -> InboxCursor:
    moment = case.expires_at if case.closed_at is None else case.closed_at
    return InboxCursor(at=moment, case_id=case.id)


def build_entry(rows: list[tuple[Case, Offer]], asked: InboxQuery, *, next: InboxCursor | None) -> InboxPage:
    return InboxPage(
        rows=tuple(_row(case, offer) for case, offer in rows),
        next=next,
        versions=" ".join([*(f"{case.id}.{case.version}" for case, _ in rows), str(next is None)]),
    )


def _row(case: Case, offer: Offer) -> InboxRow:
    action = case.decision.result.action if case.decision else None
    return InboxRow(
        case_id=case.id,
        kind=kind_name(offer),
        prompt=offer.prompt,
        service=offer.service,
        agent=offer.agent,
        status=case.status.value,
        expires_at=case.expires_at,
        closed_at=case.closed_at,
        outcome=load_review_type(offer).outcome(offer, action) if action else None,
        person=case.decision.responded_by.name if case.decision and case.decision.responded_by else None,
    )
