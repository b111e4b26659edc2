"""List the inbox: a page of the cases in a person's scope, filtered by review type and words."""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from placet.cases.call_receipt import find_most_notable
from placet.cases.case import Case, Offer
from placet.desk.asker import describe_asker
from placet.desk.inbox_scope import InboxScope
from placet.desk.review_desk import ReviewDesk
from placet.pages.view import InboxRow
from placet.ports.inbox_store import InboxCursor, Owner
from placet.reviews.registry import SAMPLES, load_review_type

PAGE_SIZE = 25
BATCH_SIZE = 100
MAX_EXAMINED = 500
"""How many cases are examined for one page of a filtered list; the person can then continue."""
OTHER = "other"
TYPE_NAMES = (*SAMPLES, OTHER)
MAX_SEARCH_LENGTH = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class InboxQuery(Struct, frozen=True, kw_only=True):
    """Which cases to list, as given in the query of the page's URL."""

    decided: bool = False
    type: str = ""
    words: str = ""
    after: InboxCursor | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether only some of the cases in scope are listed."""
        return bool(self.type or self.words)

    def matches(self, case: Case, offer: Offer) -> bool:
        """Whether a case has the type and the words of the filter."""
        if self.type and self.type != (get_type_name(offer) if not offer.type.startswith("x-") else OTHER):
            return False
        names = [name or "" for name in (case.owner, offer.service, offer.agent)]
        text = " ".join([offer.prompt, offer.message, *names, offer.type])
        return all(word in text.casefold() for word in self.words.casefold().split())


class InboxPage(Struct, frozen=True, kw_only=True):
    """One page of the inbox."""

    rows: tuple[InboxRow, ...]
    next: InboxCursor | None = None
    """Where the next page begins; None if this is the last."""
    versions: str = ""
    """A text that changes when anything on the page changes."""


def read_query(query: Mapping[str, str]) -> InboxQuery:
    """Return the query of a URL; invalid values are ignored."""
    type = query.get("type", "")
    return InboxQuery(
        decided=query.get("show") == "decided",
        type=type if type in TYPE_NAMES else "",
        words=" ".join(query.get("words", "").split())[:MAX_SEARCH_LENGTH],
        after=_read_cursor(query.get("after", "")),
    )


def write_cursor(cursor: InboxCursor) -> str:
    """Return a cursor as written in a URL."""
    return f"{(cursor.at - _EPOCH) // _MICROSECOND}.{cursor.case_id}"


def _read_cursor(text: str) -> InboxCursor | None:
    moment, _, case_id = text.partition(".")
    if not (moment.isascii() and moment.isdigit() and len(moment) < 18 and case_id):
        return None
    return InboxCursor(at=_EPOCH + int(moment) * _MICROSECOND, case_id=case_id)


class InboxList:
    """Reads pages of cases. It queries only cases in the person's scope."""

    def __init__(self, desk: ReviewDesk) -> None:
        self._desk = desk

    async def page(self, scope: InboxScope, asked: InboxQuery) -> InboxPage:
        """Return one page of the cases that match the query and are in scope."""
        rows: list[tuple[Case, Offer]] = []
        examined, last = 0, None
        async for case, offer in self._list_cases(await self._list_owners(scope), asked):
            if len(rows) == PAGE_SIZE or examined == MAX_EXAMINED:
                return self._build_page(rows, next=last)
            examined += 1
            last = _build_cursor(case)
            if asked.matches(case, offer):
                rows.append((case, offer))
        return self._build_page(rows, next=None)

    async def _list_owners(self, scope: InboxScope) -> Collection[Owner]:
        known = await self._desk.store.list_owners() if scope.everyone else (scope.own, scope.holds)
        return [owner for owner in known if scope.sees(owner)]

    async def _list_cases(
        self, owners: Collection[Owner], asked: InboxQuery
    ) -> AsyncIterator[tuple[Case, Offer]]:
        after, store = asked.after, self._desk.store
        limit = BATCH_SIZE if asked.is_filtered else PAGE_SIZE + 1
        while True:
            if asked.decided:
                found = await store.list_closed_cases(owners, after=after, limit=limit)
            else:
                found = await store.list_waiting_cases(owners, now=self._desk.now(), after=after, limit=limit)
            for case, offer in found:
                if await self._desk.is_intact(case, offer):  # an altered case is left out: it is not answered
                    yield case, offer
            if len(found) < limit:
                return
            after = _build_cursor(found[-1][0])

    def _build_page(self, rows: list[tuple[Case, Offer]], *, next: InboxCursor | None) -> InboxPage:
        return InboxPage(
            rows=tuple(_build_row(case, offer, self._desk.service_name) for case, offer in rows),
            next=next,
            versions=" ".join([*(f"{case.id}.{case.version}" for case, _ in rows), str(next is None)]),
        )


def get_type_name(offer: Offer) -> str:
    """Return the name of the offer's review type or variant."""
    review_type = load_review_type(offer)
    return next((name for name, one in SAMPLES.items() if one is review_type), offer.type)


def _build_cursor(case: Case) -> InboxCursor:
    moment = case.expires_at if case.closed_at is None else case.closed_at
    return InboxCursor(at=moment, case_id=case.id)


def _build_row(case: Case, offer: Offer, service_name: str | None) -> InboxRow:
    action = case.decision.result.action if case.decision else None
    data = case.decision.result.data if case.decision else {}
    rules = load_review_type(offer)
    return InboxRow(
        case_id=case.id,
        type=get_type_name(offer),
        prompt=offer.prompt,
        note=rules.build_list_note(offer),
        asker=describe_asker(case, offer, service_name=service_name),
        status=case.status.value,
        expires_at=case.expires_at,
        closed_at=case.closed_at,
        outcome=rules.find_outcome(offer, action) if action else None,
        person=case.decision.responded_by.name if case.decision and case.decision.responded_by else None,
        execution=find_most_notable(rules.list_executions(offer, data, case.receipts)),
    )
