"""The cases that a call of a coding agent becomes, and what their outcomes mean for the call. Pure."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from placet.hook.coding_agents.file_arguments import find_content, find_edit
from placet.hook.coding_agents.host_calls import HostCall, HostDecision, deny
from placet.text.truncation import truncate

MAX_PROMPT = 400
MAX_PROMPT_COMMAND = 160
MAX_SHOWN_TEXT = 200_000
CALL_ID = "call"
Draft = dict[str, Any]


class CaseAnswer(Struct, frozen=True, kw_only=True):
    """What a person answered: the action, its data, and who they are."""

    action: str
    is_affirmative: bool
    data: Mapping[str, Any] = {}
    reviewer: str = ""


class CaseSurroundings(Struct, frozen=True, kw_only=True):
    """What the host's JSON does not say, and a reviewer should see."""

    computer: str = ""
    current_text: str | None = None
    """The content of the file that the call would replace."""
    earlier: str = ""
    """What people decided earlier in this session."""


def build_drafts(call: HostCall, around: CaseSurroundings) -> list[Draft]:
    """Return the cases that decide a call, in order: one for each question of the agent, else one."""
    if call.kind == "question":
        questions = call.arguments["questions"]
        return [
            _build_question(call, question, number, len(questions), around)
            for number, question in enumerate(questions, start=1)
        ]
    return [_build_plan(call, around) if call.kind == "plan" else _build_tool_call(call, around)]


def decide(call: HostCall, answers: list[CaseAnswer]) -> HostDecision:
    """Return the decision that these answers mean. Everything but a clear yes is a denial."""
    if call.kind == "question":
        return _decide_questions(call, answers)
    return _decide_plan(answers[0]) if call.kind == "plan" else _decide_tool_call(call, answers[0])


# Tool calls


def _build_tool_call(call: HostCall, around: CaseSurroundings) -> Draft:
    decisions = ["approve", "edit", "reject"] if call.editable is not None else ["approve", "reject"]
    waiting = {
        "id": CALL_ID,
        "name": call.tool,
        "arguments": call.arguments,
        "allowed_decisions": decisions,
        "path": list(call.agents),
        # A pattern for a shell command could cover a second command, so none is offered.
        **({"high_risk": False} if call.command is None else {}),
        **({"schema": call.editable} if call.editable is not None else {}),
    }
    diff = build_diff(call, around.current_text)
    if call.command is not None:
        what = f"run: {truncate(' '.join(call.command.split()), MAX_PROMPT_COMMAND)}"
    else:
        what = f"use {call.tool}" + (f" on {_shorten_path(call.paths[0], call)}" if call.paths else "")
    return {
        **_build_draft(call, f"{call.host} wants to {what}"),
        "type": "approval",
        "default_action": "reject",
        "context": {
            **({"diff": diff} if diff else {}),
            **_list_facts(call, around),
            "tool_calls": [waiting],
            "agent": call.host,
            "thread_id": call.session,
        },
    }


def _decide_tool_call(call: HostCall, answer: CaseAnswer) -> HostDecision:
    decided = answer.data.get("decisions")
    said = decided.get(CALL_ID) if isinstance(decided, Mapping) else None
    word = said.get("decision") if isinstance(said, Mapping) else None
    if word == "approve" and answer.action == "approve" and answer.is_affirmative:
        return HostDecision(verdict="allow", message=f"Approved{_by(answer)}.")
    if word == "edit" and answer.action == "edit" and call.editable is not None:
        arguments = said.get("arguments") if isinstance(said, Mapping) else None
        if isinstance(arguments, dict) and arguments:
            return HostDecision(
                verdict="allow", message=f"Approved with changes{_by(answer)}.", arguments=arguments
            )
    reason = (said.get("reason") if isinstance(said, Mapping) else None) or answer.data.get("note")
    return deny(f"Rejected{_by(answer)}{_format_reason(reason)}")


def build_diff(call: HostCall, current_text: str | None) -> str:
    """Return what a call changes in a file as a unified diff; empty if that is nothing or too long."""
    if call.diff or call.changes:
        return _join_changes(call)
    old, new = find_edit(call.arguments) or (current_text or "", find_content(call.arguments))
    if not call.paths or new is None or len(old) + len(new) > MAX_SHOWN_TEXT:
        return ""
    return _format_diff(_shorten_path(call.paths[0], call), old, new)


def _join_changes(call: HostCall) -> str:
    size = len(call.diff) + sum(len(one.before) + len(one.after) for one in call.changes)
    if size > MAX_SHOWN_TEXT:
        return ""
    return call.diff or "\n".join(
        _format_diff(_shorten_path(one.path, call), one.before, one.after) for one in call.changes
    )


def _shorten_path(path: str, call: HostCall) -> str:
    """Return a path below the working directory without that."""
    folder = f"{call.folder.rstrip('/')}/"
    return path.removeprefix(folder) if len(folder) > 1 else path


def _format_diff(path: str, old: str, new: str) -> str:
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm=""))


# Questions and plans


def _build_question(
    call: HostCall, question: Mapping[str, Any], number: int, count: int, around: CaseSurroundings
) -> Draft:
    options = [
        {
            "id": str(place),
            "title": option["label"].strip() or "-",
            **({"description": option["description"]} if isinstance(option.get("description"), str) else {}),
        }
        for place, option in enumerate(question["options"], start=1)
    ]
    place = f" ({number} of {count})" if count > 1 else ""
    return {
        **_build_draft(call, f"{question['question']}{place}"),
        "type": "selection",
        "default_action": "abort",
        "context": {
            "options": options,
            "multiple": question.get("multiSelect") is True,
            **_list_facts(call, around),
        },
    }


def _decide_questions(call: HostCall, answers: list[CaseAnswer]) -> HostDecision:
    questions = call.arguments["questions"]
    answered: dict[str, str] = {}
    for question, answer in zip(questions, answers, strict=True):
        labels = list(_find_labels(question, answer))
        if not answer.is_affirmative or not labels:
            return deny("The person did not answer this question.")
        note = answer.data.get("note")
        remark = f" (note: {note.strip()})" if isinstance(note, str) and note.strip() else ""
        answered[question["question"]] = ", ".join(labels) + remark
    return HostDecision(
        verdict="allow",
        message=f"Answered{_by(answers[-1])}.",
        arguments={**call.arguments, "answers": answered},
    )


def _find_labels(question: Mapping[str, Any], answer: CaseAnswer) -> Iterator[str]:
    selected = answer.data.get("selected")
    for place, option in enumerate(question["options"], start=1):
        if isinstance(selected, list) and str(place) in selected:
            yield option["label"]


def _build_plan(call: HostCall, around: CaseSurroundings) -> Draft:
    return {
        **_build_draft(call, f"{call.host} wants to carry out this plan"),
        "type": "approval",
        "default_action": "reject",
        "context": {
            "artifact": call.arguments["plan"],
            "artifact_format": "markdown",
            **_list_facts(call, around),
        },
    }


def _decide_plan(answer: CaseAnswer) -> HostDecision:
    if answer.action == "approve" and answer.is_affirmative:
        return HostDecision(verdict="allow", message=f"Approved{_by(answer)}.")
    feedback = _format_reason(answer.data.get("feedback"))
    if answer.action == "edit":
        edits = answer.data.get("edits")
        plan = edits.get("artifact") if isinstance(edits, Mapping) else None
        changed = f"\nThe plan as they want it:\n{plan}" if isinstance(plan, str) else ""
        return deny(f"Changes to the plan requested{_by(answer)}{feedback}{changed}")
    return deny(f"The plan was rejected{_by(answer)}{feedback}")


# Shared


def _build_draft(call: HostCall, prompt: str) -> Draft:
    return {"prompt": truncate(prompt, MAX_PROMPT), "agent": call.host}


def _list_facts(call: HostCall, around: CaseSurroundings) -> dict[str, str]:
    facts = {
        "computer": around.computer,
        "working_directory": call.folder,
        "session": call.session,
        "permission_mode": call.mode,
        "earlier_in_this_session": around.earlier,
        "asked_for_by": " > ".join(call.agents) if call.kind != "tool" else "",
    }
    return {name: value for name, value in facts.items() if value}


def _by(answer: CaseAnswer) -> str:
    return f" by {answer.reviewer}" if answer.reviewer else " by a person"


def _format_reason(reason: object) -> str:
    return f": {reason.strip()}" if isinstance(reason, str) and reason.strip() else "."
