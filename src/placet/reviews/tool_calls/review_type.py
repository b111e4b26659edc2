"""The rules of tool calls: one answer approves, edits, rejects or responds to every call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placet.cases.call_receipt import CallExecution, CallReceipt
from placet.cases.case import Offer
from placet.reviews.answer import check_known, drop_empty, read_text
from placet.reviews.form_post import PostResult
from placet.reviews.page_form import Pairs
from placet.reviews.reason_presets import find_presets_key, read_presets, read_text_with_preset
from placet.reviews.review_type import ReviewType, omit_from_context
from placet.reviews.tool_calls.call_view import build_automatic_views, build_entry_view, format_call_name
from placet.reviews.tool_calls.decision_sheet import (
    EDIT_ALONE,
    MAX_GRANT_BOXES,
    SheetEntry,
    decide_call,
    load_sheet,
    read_posted_sheet,
)
from placet.reviews.tool_calls.declaration import TOOL_CALLS
from placet.reviews.tool_calls.granting import PageGrants
from placet.reviews.tool_calls.requested_calls import (
    AUTOMATIC,
    CALLS,
    CallGroup,
    RequestedCalls,
    group_calls,
    has_tool_calls,
    list_schemas,
    read_requested_calls,
)
from placet.reviews.tool_calls.schema import read_subschema
from placet.reviews.tool_calls.secrets import mask_change, mask_secrets
from placet.reviews.tool_calls.verdicts import (
    FIELD,
    WHOLE,
    CallVerdicts,
    check_decisions,
    combine_decisions,
    has_edit,
)
from placet.text.wording import Message, message

PREVIEW = "x-preview"
INTERRUPTION, THREAD, AGENT, DIFF = "interruption", "thread_id", "agent", "diff"
_OUTCOMES: Mapping[str, str] = {
    "approve": "approve_calls",
    "reject": "reject_calls",
    "edit": "decide_calls",
}

GRANTS = "grants"
RUNNING = ("approve", "edit")
"""The decisions that let a call run."""


class ToolCalls(ReviewType):
    """An approval whose context holds the tool calls of one turn of an agent."""

    takes_result_schema = False
    declaration = TOOL_CALLS
    offers_grants = True
    _grants = PageGrants()

    def recognises(self, context: Mapping[str, Any]) -> bool:
        """Whether the context has tool calls, valid or not."""
        return has_tool_calls(context)

    def inline_for(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the actions that every call allows, because a button decides all of them."""
        return _find_shared_decisions(read_requested_calls(context))

    def read_context(self, context: Mapping[str, Any]) -> RequestedCalls:
        """Return the calls; raise ValidationFailed if they are not valid."""
        return read_requested_calls(context)

    def list_call_ids(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the ids of the calls that wait for a decision."""
        return tuple(call.id for call in read_requested_calls(context).calls)

    def list_schemas(self, context: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the schemas of the tools, each with its path."""
        return list_schemas(read_requested_calls(context))

    def evaluates_schema(self, offer: Offer, data: Mapping[str, Any]) -> bool:
        """Whether an edit is among the decisions, and a call has a schema."""
        return has_edit(data.get(FIELD)) and _has_schema(offer)

    def post_evaluates_schema(self, offer: Offer, move: str, pairs: Pairs) -> bool:
        """Whether an edit was chosen, and a call has a schema."""
        is_edit = move == EDIT_ALONE or any(value == "edit" for _, value in pairs)
        return is_edit and _has_schema(offer)

    def is_high_risk(self, offer: Offer) -> bool:
        """Whether one of the calls is declared as of high risk."""
        return super().is_high_risk(offer) or any(
            call.high_risk for call in read_requested_calls(offer.context).calls
        )

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a decision for every call, a note, and the grants."""
        check_known(data, (FIELD, "note", GRANTS))
        verdicts = check_decisions(read_requested_calls(offer.context), action, data.get(FIELD))
        grants = self._grants.check(offer.context[CALLS], verdicts, data.get(GRANTS))
        return drop_empty(decisions=verdicts, note=read_text(data, "note"), grants=grants or None)

    # The page

    def handle_post(self, offer: Offer, move: str, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Answer with the decisions and the button that was pressed, or preview the changes."""
        sheet = self._read_post(offer, pairs, saved)
        values = self._read_values(offer, sheet, pairs)
        if move == PREVIEW:
            return PostResult(values=values, ready=False)
        verdicts: CallVerdicts = {}
        problems: dict[str, str] = {}
        for entry in sheet:
            verdict, wrong = decide_call(entry, move, is_alone=len(sheet) == 1)
            problems |= wrong
            verdicts |= dict.fromkeys(entry.group.ids, verdict)
        if problems:
            return PostResult(values=values, ready=False, problems=problems)
        asked = (self._grants.read(one.group, one.grant, verdicts[one.group.ids[0]]) for one in sheet)
        grants = [grant for grant in asked if grant is not None]
        data = drop_empty(decisions=verdicts, note=values.get("note"), grants=grants or None)
        action = combine_decisions(verdict["decision"] for verdict in verdicts.values())
        return PostResult(values=values, ready=True, action=action, data=data)

    def read_draft(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> PostResult:
        """Return the decisions made so far, to save them."""
        return PostResult(
            values=self._read_values(offer, self._read_post(offer, pairs, saved), pairs), ready=False
        )

    def build_decided_content(self, offer: Offer) -> dict[str, Any]:
        """Return what the page showed."""
        return self.build_page_content(offer, {})

    def form_data(self, offer: Offer, pairs: Pairs) -> dict[str, Any]:
        """Return what was entered for each call, and the note."""
        return self._read_values(offer, self._read_post(offer, pairs, {}), pairs)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the calls with what was entered, the automatic calls, and the other facts."""
        asked = read_requested_calls(offer.context)
        sheet = load_sheet(group_calls(asked), values)
        calls = [{**build_entry_view(entry), "grant": grant} for entry, grant in self._add_grant_boxes(sheet)]
        facts = _list_other_facts(offer)
        return {
            "calls": calls,
            "automatic": build_automatic_views(asked),
            "count": len(asked.calls),
            "alone": len(calls) == 1,
            "allowed": calls[0]["allowed"] if len(calls) == 1 else (),
            "each": any(call["decision"] for call in calls),
            "whole": _find_shared_decisions(asked),
            "labels": {name: label for call in calls for name, label in call["labels"].items()},
            "presets": read_presets(offer.context),
            "changes": {name: value for name, value in facts.items() if name == DIFF},
            "facts": {name: value for name, value in facts.items() if name != DIFF},
        }

    def _add_grant_boxes(
        self, sheet: Sequence[SheetEntry]
    ) -> Iterator[tuple[SheetEntry, dict[str, Any] | None]]:
        room = MAX_GRANT_BOXES
        for entry in sheet:
            grant = self._grants.build_boxes(entry.group, entry.grant) if room > 0 else None
            room -= len(entry.group.call.arguments) + 3 if grant else 0
            yield entry, grant

    # Afterwards

    def find_outcome(self, offer: Offer, action: str) -> str:
        """Return an outcome that differs from an approval's: an edit runs as decided, without a new round."""
        return _OUTCOMES.get(action, action)

    def extract_comparable(self, offer: Offer) -> dict[str, Any]:
        """Return the arguments of each call and the other facts, with secrets masked."""
        groups = group_calls(read_requested_calls(offer.context))
        return {
            **{format_call_name(group): _mask_arguments(group) for group in groups},
            **_list_other_facts(offer),
        }

    def summarize_answer(self, offer: Offer, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the decision about each call, identical ones once, then the grants and the note."""
        verdicts = data.get(FIELD, {})
        groups = group_calls(read_requested_calls(offer.context))
        decided = [
            _describe_verdict(group, verdicts[group.ids[0]]) for group in groups if group.ids[0] in verdicts
        ]
        names = {call_id: format_call_name(group) for group in groups for call_id in group.ids}
        granted = [self._grants.describe(names[one["call_id"]], one) for one in data.get(GRANTS, ())]
        others = [(name, part) for name, part in data.items() if name not in (FIELD, GRANTS)]
        return [*decided, *granted, *others]

    def list_original_values(self, offer: Offer) -> Mapping[str, Mapping[str, Any]]:
        """Return the original arguments under the names that `summarize_answer` gives to edited ones."""
        groups = group_calls(read_requested_calls(offer.context))
        return {_describe_call_verdict(group, "edit"): _mask_arguments(group) for group in groups}

    def list_executions(
        self, offer: Offer, data: Mapping[str, Any], receipts: Sequence[CallReceipt]
    ) -> tuple[CallExecution, ...]:
        """Return the calls that were approved or reported, each with what became of it."""
        verdicts, reported = data.get(FIELD, {}), {receipt.call_id: receipt for receipt in receipts}
        executions = []
        for group in group_calls(read_requested_calls(offer.context)):
            for call_id in group.ids:
                receipt = reported.get(call_id)
                if receipt is not None:
                    one = CallExecution(name=group.call.name, outcome=receipt.outcome, at=receipt.at)
                elif verdicts.get(call_id, {}).get("decision") in RUNNING:
                    one = CallExecution(name=group.call.name)
                else:
                    continue
                executions.append(one)
        return tuple(executions)

    def _read_post(self, offer: Offer, pairs: Pairs, saved: Mapping[str, Any]) -> list[SheetEntry]:
        return read_posted_sheet(group_calls(read_requested_calls(offer.context)), pairs, saved)

    def _read_values(self, offer: Offer, sheet: Sequence[SheetEntry], pairs: Pairs) -> dict[str, Any]:
        note = read_text_with_preset(offer.context, pairs, "note")
        calls = {str(entry.group.number): values for entry in sheet if (values := entry.values())}
        return drop_empty(calls=calls, note=note if note and note.strip() else None)


def _has_schema(offer: Offer) -> bool:
    return any(call.schema is not None for call in read_requested_calls(offer.context).calls)


def _find_shared_decisions(asked: RequestedCalls) -> tuple[str, ...]:
    return tuple(word for word in WHOLE if all(word in call.allowed_decisions for call in asked.calls))


def _list_other_facts(offer: Offer) -> dict[str, Any]:
    """Return the other facts, without the ids that only the agent needs."""
    facts = omit_from_context(
        offer.context, CALLS, AUTOMATIC, INTERRUPTION, THREAD, find_presets_key(offer.context)
    )
    return {name: value for name, value in facts.items() if name != AGENT or value != offer.agent}


def _mask_arguments(group: CallGroup) -> dict[str, Any]:
    shown: dict[str, Any] = mask_secrets(group.call.arguments, read_subschema(group.call.schema))
    return shown


def _describe_verdict(group: CallGroup, verdict: Mapping[str, Any]) -> tuple[str, Any]:
    word = verdict["decision"]
    name = _describe_call_verdict(group, word)
    if word == "edit":
        gone = dict.fromkeys(key for key in group.call.arguments if key not in verdict["arguments"])
        subschema, before = read_subschema(group.call.schema), group.call.arguments
        return name, mask_change(verdict["arguments"], subschema, before) | gone
    if word == "approve":
        return name, _mask_arguments(group)
    return name, verdict.get("answer") or verdict.get("reason") or message("No reason was given.")


def _describe_call_verdict(group: CallGroup, word: str) -> Message:
    call = format_call_name(group)
    return {
        "approve": message("{call}: approved", call=call),
        "edit": message("{call}: approved with changes", call=call),
        "reject": message("{call}: rejected", call=call),
        "respond": message("{call}: answered in its place", call=call),
    }[word]


REVIEW_TYPE = ToolCalls
