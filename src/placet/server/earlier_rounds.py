"""The rounds that led to a question: what was answered in each, and what changed from it to the next."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from placet.cases.case import Case, Offer
from placet.desk.review_desk import ReviewDesk
from placet.pages.diffs import Comparison, compare
from placet.pages.view import Recap, Round
from placet.reviews.review_type import ReviewType

MOST_COMPARED = 10
MOST_BYTES = 4_000_000
QUICK_BYTES = 40_000

Asked = tuple[Case, Offer]
KindOf = Callable[[Offer], ReviewType]


async def earlier_rounds(desk: ReviewDesk, kind: KindOf, case: Case, offer: Offer) -> tuple[Round, ...]:
    """The rounds before this case, oldest first, without those that retention has erased."""
    if case.previous_case_id is None:
        return ()
    chain = await desk.rounds(case)
    earlier = chain[: [one.id for one in chain].index(case.id)]
    asked = [await desk.get_case_and_offer(one.id) for one in earlier if one.erased_at is None]
    compared = await compare_values([kind(shown).comparable(shown) for _, shown in [*asked, (case, offer)]])
    return tuple([await _round(kind, one, changes) for one, changes in zip(asked, compared, strict=True)])


async def recap_of(kind: KindOf, case: Case, offer: Offer) -> Recap:
    """What was answered, for a person to read: changes of what was shown as such."""
    if case.decision is None:
        return ()
    rules = kind(offer)
    shown = rules.replaced(offer)
    return tuple(
        [
            (name, await list_changes(shown[name], value) if name in shown else value)
            for name, value in rules.recap(offer, case.decision.result.data)
        ]
    )


async def list_changes(shown: Mapping[str, Any], edits: Mapping[str, Any]) -> Comparison:
    before = {name: shown[name] for name in edits if name in shown}
    return await _difference(before, edits, _size(before) + _size(edits))


async def _round(kind: KindOf, asked: Asked, changes: Comparison | None) -> Round:
    case, offer = asked
    return Round(
        asked_at=case.created_at,
        prompt=offer.prompt,
        action=kind(offer).outcome(offer, case.decision.result.action) if case.decision else None,
        recap=await recap_of(kind, case, offer),
        changes=changes,
    )


async def compare_values(shown: Sequence[Any]) -> list[Comparison | None]:
    """What changed from each to the next; the newest first in line where there is too much to compare."""
    sizes = [_size(values) for values in shown]
    compared: list[Comparison | None] = [None] * (len(shown) - 1)
    room = MOST_BYTES
    for number in reversed(range(max(len(compared) - MOST_COMPARED, 0), len(compared))):
        size = sizes[number] + sizes[number + 1]
        room -= size
        if room < 0:
            break
        compared[number] = await _difference(shown[number], shown[number + 1], size)
    return compared


async def _difference(before: Any, after: Any, size: int) -> Comparison:
    """What changed; a long comparison leaves the loop to other requests."""
    return compare(before, after) if size <= QUICK_BYTES else await asyncio.to_thread(compare, before, after)


def _size(values: Any) -> int:
    return len(msgspec.json.encode(values))
