"""Load the earlier rounds of a case: each round's answer, and what changed in the next."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from placet.cases.case import Case, Offer
from placet.desk.review_desk import ReviewDesk
from placet.pages.diffs import Comparison, compare
from placet.pages.view import Recap, Round
from placet.reviews.review_type import ReviewType

MAX_COMPARED_ROUNDS = 10
MAX_COMPARED_BYTES = 4_000_000
QUICK_BYTES = 40_000

CaseWithOffer = tuple[Case, Offer]
TypeLoader = Callable[[Offer], ReviewType]


async def load_earlier_rounds(
    desk: ReviewDesk, load_type: TypeLoader, case: Case, offer: Offer
) -> tuple[Round, ...]:
    """Return the rounds before this case, oldest first, without those that retention has erased."""
    if case.previous_case_id is None:
        return ()
    chain = await desk.list_rounds(case)
    earlier = chain[: [one.id for one in chain].index(case.id)]
    asked = [await desk.get_case_and_offer(one.id) for one in earlier if one.erased_at is None]
    compared = await compare_values(
        [load_type(shown).extract_comparable(shown) for _, shown in [*asked, (case, offer)]]
    )
    return tuple(
        [await _describe_round(load_type, one, changes) for one, changes in zip(asked, compared, strict=True)]
    )


async def build_recap(load_type: TypeLoader, case: Case, offer: Offer) -> Recap:
    """Return the answer for display; edits of shown content become comparisons."""
    if case.decision is None:
        return ()
    rules = load_type(offer)
    shown = rules.list_original_values(offer)
    return tuple(
        [
            (name, await list_changes(shown[name], value) if name in shown else value)
            for name, value in rules.summarize_answer(offer, case.decision.result.data)
        ]
    )


async def list_changes(shown: Mapping[str, Any], edits: Mapping[str, Any]) -> Comparison:
    """Return how the edited fields differ from what was shown."""
    before = {name: shown[name] for name in edits if name in shown}
    return await _compare(before, edits, _measure_size(before) + _measure_size(edits))


async def _describe_round(load_type: TypeLoader, asked: CaseWithOffer, changes: Comparison | None) -> Round:
    case, offer = asked
    return Round(
        asked_at=case.created_at,
        prompt=offer.prompt,
        action=load_type(offer).find_outcome(offer, case.decision.result.action) if case.decision else None,
        recap=await build_recap(load_type, case, offer),
        changes=changes,
    )


async def compare_values(shown: Sequence[Any]) -> list[Comparison | None]:
    """Return what changed from each value to the next; None for the oldest if the size limit is reached."""
    sizes = [_measure_size(values) for values in shown]
    compared: list[Comparison | None] = [None] * (len(shown) - 1)
    room = MAX_COMPARED_BYTES
    for number in reversed(range(max(len(compared) - MAX_COMPARED_ROUNDS, 0), len(compared))):
        size = sizes[number] + sizes[number + 1]
        room -= size
        if room < 0:
            break
        compared[number] = await _compare(shown[number], shown[number + 1], size)
    return compared


async def _compare(before: Any, after: Any, size: int) -> Comparison:
    """Compare two values; a long comparison runs in a thread so that other requests continue."""
    return compare(before, after) if size <= QUICK_BYTES else await asyncio.to_thread(compare, before, after)


def _measure_size(values: Any) -> int:
    return len(msgspec.json.encode(values))
