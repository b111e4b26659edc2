"""The view of tool calls for their page: names, arguments, form fields, and no secrets."""

from collections.abc import Mapping
from typing import Any

import msgspec

from placet.reviews.tool_calls.decision_sheet import SheetEntry
from placet.reviews.tool_calls.fields import ArgumentField
from placet.reviews.tool_calls.requested_calls import CallGroup, RequestedCalls
from placet.reviews.tool_calls.schema import read_subschema
from placet.reviews.tool_calls.secrets import mask_secrets


def format_call_name(group: CallGroup) -> str:
    """Return the number and tool of a call, and how many times it is requested."""
    times = f" ×{len(group.ids)}" if len(group.ids) > 1 else ""
    return f"{group.number}. {group.call.name}{times}"


def build_entry_view(entry: SheetEntry) -> dict[str, Any]:
    """Return the view of one call with what was entered for it."""
    call = entry.group.call
    fields = [_build_field_view(entry, field) for field in entry.form.fields] if entry.form else []
    name = format_call_name(entry.group)
    return {
        "number": entry.group.number,
        "key": entry.key,
        "name": call.name,
        "count": len(entry.group.ids),
        "description": call.description,
        "path": call.path,
        "high_risk": bool(call.high_risk),
        "arguments": mask_secrets(call.arguments, read_subschema(call.schema)),
        "allowed": list(dict.fromkeys(call.allowed_decisions)),
        "decision": entry.decision,
        "reason": entry.reason,
        "answer": entry.answer,
        "fields": fields,
        "too_large": entry.form is None and "edit" in call.allowed_decisions,
        "labels": {
            entry.key: name,
            f"{entry.key}-reason": name,
            f"{entry.key}-answer": name,
            **{field["key"]: ": ".join([name, *field["path"]]) for field in fields},
            f"grant.{entry.group.ids[0]}": name,
        },
    }


def build_automatic_views(asked: RequestedCalls) -> list[dict[str, Any]]:
    """Return the calls that need no decision, identical ones once, with secrets masked."""
    schemas: Mapping[str, Any] = {call.name: call.schema for call in asked.calls}
    found: dict[bytes, dict[str, Any]] = {}
    for call in asked.automatic:
        likeness = msgspec.json.encode([call.name, call.arguments], order="deterministic")
        shown = {
            "name": call.name,
            "arguments": mask_secrets(call.arguments, read_subschema(schemas.get(call.name))),
        }
        found.setdefault(likeness, {**shown, "count": 0})["count"] += 1
    return list(found.values())


def _build_field_view(entry: SheetEntry, field: ArgumentField) -> dict[str, Any]:
    typed = entry.typed.get(field.name)
    secret = field.control == "secret"
    before, now = field.original, field.original if typed is None else typed
    choices = [(ArgumentField(path=(), control="choice", value=one).original, one) for one in field.choices]
    return {
        "key": entry.box(field.name),
        "name": f"edit.{entry.group.number}.{field.name}",
        "path": field.path,
        "control": field.control,
        "whole": field.whole,
        "blank": field.blank,
        "required": field.required,
        "choices": choices,
        "hint": field.hint,
        "original": field.original,
        "typed": "" if secret else now,
        "before": dict(choices).get(before) if choices else before,
        "now": None if secret else dict(choices).get(now) if choices else now,
        "changed": typed is not None and not secret,
        "saved": typed is not None and secret,
        "emptied": f"{entry.group.number}.{field.name}",
    }
