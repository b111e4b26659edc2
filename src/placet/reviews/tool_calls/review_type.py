"""The rules of a tool approval: every call approved, changed, rejected or answered, in one answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placet.cases.case import Offer
from placet.reviews.answer import check_known, kept, read_text
from placet.reviews.page_form import Pairs
from placet.reviews.presets import presets_name, presets_of, with_preset
from placet.reviews.review_type import ReviewType, without
from placet.reviews.tool_calls.asked import (
    AUTOMATIC,
    CALLS,
    Asked,
    Group,
    asks_for_calls,
    check_schemas,
    grouped,
    read_asked,
)
from placet.reviews.tool_calls.declaration import TOOL_CALLS
from placet.reviews.tool_calls.granting import PageGrants
from placet.reviews.tool_calls.schema import said_by
from placet.reviews.tool_calls.secrets import masked, masked_change
from placet.reviews.tool_calls.sheet import MOST_GRANT_BOXES, Entry, decided, kept_sheet, posted_sheet
from placet.reviews.tool_calls.shown import shown_automatic, shown_entry, shown_name
from placet.reviews.tool_calls.verdicts import FIELD, WHOLE, Verdicts, action_of, judged
from placet.reviews.turn import Turn
from placet.text.wording import Message, message

PREVIEW = "x-preview"
INTERRUPTION, THREAD, AGENT = "interruption", "thread_id", "agent"
_OUTCOMES: Mapping[str, str] = {
    "approve": "approve_calls",
    "reject": "reject_calls",
    "edit": "decide_calls",
}

GRANTS = "grants"


class ToolCalls(ReviewType):
    """An approval whose context holds the tool calls of one turn of an agent."""

    declaration = TOOL_CALLS
    offers_grants = True
    _grants = PageGrants()

    def recognises(self, context: Mapping[str, Any]) -> bool:
        """Every context that names tool calls, whether or not they can be asked."""
        return asks_for_calls(context)

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """What every call allows: a button decides them all."""
        return _whole(read_asked(context))

    def understand(self, context: Mapping[str, Any]) -> Asked:
        """The calls; raises ValidationFailed if they cannot be asked."""
        asked = read_asked(context)
        check_schemas(asked)
        return asked

    def judge(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A decision for every call, a note for all, and grants if someone here keeps them."""
        check_known(data, (FIELD, "note", GRANTS))
        verdicts = judged(read_asked(offer.context), action, data.get(FIELD))
        grants = self._grants.check(offer.context[CALLS], verdicts, data.get(GRANTS))
        return kept(decisions=verdicts, note=read_text(data, "note"), grants=grants or None)

    # The page

    def turn(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> Turn:
        """An answer, as the button and the decisions say together; or a look at one's own changes."""
        sheet = self._posted(offer, pairs, saved)
        values = self._values(offer, sheet, pairs)
        if move == PREVIEW:
            return Turn(values=values, ready=False)
        verdicts: Verdicts = {}
        problems: dict[str, str] = {}
        for entry in sheet:
            verdict, wrong = decided(entry, move)
            problems |= wrong
            verdicts |= dict.fromkeys(entry.group.ids, verdict)
        if problems:
            return Turn(values=values, ready=False, problems=problems)
        asked = (self._grants.read(one.group, one.grant, verdicts[one.group.ids[0]]) for one in sheet)
        grants = [grant for grant in asked if grant is not None]
        data = kept(decisions=verdicts, note=values.get("note"), grants=grants or None)
        action = action_of(verdict["decision"] for verdict in verdicts.values())
        return Turn(values=values, ready=True, action=action, data=data)

    def typing(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> Turn:
        """Decisions made so far, kept while the others are still open."""
        return Turn(values=self._values(offer, self._posted(offer, pairs, saved), pairs), ready=False)

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """What was filled in beside each call, and the note."""
        return self._values(offer, self._posted(offer, pairs, {}), pairs)

    def substance(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """The calls with what was filled in beside each, those that run with them, and the other facts."""
        asked = read_asked(offer.context)
        sheet = kept_sheet(grouped(asked), values)
        calls = [{**shown_entry(entry), "grant": grant} for entry, grant in self._offered(sheet)]
        return {
            "calls": calls,
            "automatic": shown_automatic(asked),
            "count": len(asked.calls),
            "whole": _whole(asked),
            "labels": {name: label for call in calls for name, label in call["labels"].items()},
            "presets": presets_of(offer.context),
            "facts": _facts(offer),
        }

    def _offered(self, sheet: Sequence[Entry]) -> Iterator[tuple[Entry, dict[str, Any] | None]]:
        room = MOST_GRANT_BOXES
        for entry in sheet:
            grant = self._grants.offered(entry.group, entry.grant) if room > 0 else None
            room -= len(entry.group.call.arguments) + 3 if grant else 0
            yield entry, grant

    # Afterwards

    def outcome(self, offer: Offer, action: str) -> str:
        """Not an approval's: an edit runs as decided, and no new version comes."""
        return _OUTCOMES.get(action, action)

    def comparable(self, offer: Offer) -> dict[str, Any]:
        """The arguments of each call beside the other facts, without secrets."""
        groups = grouped(read_asked(offer.context))
        return {**{shown_name(group): _masked(group) for group in groups}, **_facts(offer)}

    def recap(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """What was decided about each call, identical ones once, what was allowed beside it, and the note."""
        verdicts = data.get(FIELD, {})
        groups = grouped(read_asked(offer.context))
        told = [_told(group, verdicts[group.ids[0]]) for group in groups if group.ids[0] in verdicts]
        names = {call_id: shown_name(group) for group in groups for call_id in group.ids}
        granted = [self._grants.told(names[one["call_id"]], one) for one in data.get(GRANTS, ())]
        others = [(name, part) for name, part in data.items() if name not in (FIELD, GRANTS)]
        return [*told, *granted, *others]

    def replaced(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Edited arguments, under the name that `recap` gives them."""
        groups = grouped(read_asked(offer.context))
        return {_said(group, "edit"): _masked(group) for group in groups}

    def _posted(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> list[Entry]:
        return posted_sheet(grouped(read_asked(offer.context)), pairs, saved)

    def _values(self, offer: Offer, sheet: Sequence[Entry], pairs: Pairs) -> dict[str, Any]:
        note = with_preset(offer.context, pairs, "note")
        calls = {str(entry.group.number): values for entry in sheet if (values := entry.values())}
        return kept(calls=calls, note=note if note and note.strip() else None)


def _whole(asked: Asked) -> tuple[str, ...]:
    return tuple(word for word in WHOLE if all(word in call.allowed_decisions for call in asked.calls))


def _facts(offer: Offer) -> dict[str, Any]:
    """What else the agent said; the names by which it finds its own way back tell a person nothing."""
    facts = without(offer.context, CALLS, AUTOMATIC, INTERRUPTION, THREAD, presets_name(offer.context))
    return {name: value for name, value in facts.items() if name != AGENT or value != offer.agent}


def _masked(group: Group) -> dict[str, Any]:
    shown: dict[str, Any] = masked(group.call.arguments, said_by(group.call.schema))
    return shown


def _told(group: Group, verdict: Mapping[str, Any]) -> tuple[str, Any]:
    word = verdict["decision"]
    name = _said(group, word)
    if word == "edit":
        gone = dict.fromkeys(key for key in group.call.arguments if key not in verdict["arguments"])
        said, before = said_by(group.call.schema), group.call.arguments
        return name, masked_change(verdict["arguments"], said, before) | gone
    if word == "approve":
        return name, _masked(group)
    return name, verdict.get("answer") or verdict.get("reason") or message("No reason was given.")


def _said(group: Group, word: str) -> Message:
    call = shown_name(group)
    return {
        "approve": message("{call}: approved", call=call),
        "edit": message("{call}: approved with changes", call=call),
        "reject": message("{call}: rejected", call=call),
        "respond": message("{call}: answered in its place", call=call),
    }[word]


REVIEW_TYPE = ToolCalls
