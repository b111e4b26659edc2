"""Draws what audit events are: their types, their outcomes and their fields, as the code says it."""

import ast
import inspect
import textwrap
from itertools import pairwise

import msgspec

from placet.relay.audit.audit_event import AUDIT_ACTIONS, AUDIT_TYPES, AuditEvent, AuditPayload
from scripts.drawing import code, table


def draw_types() -> str:
    """One row for each type."""
    return table(("Type", "What happened"), [(code(name), about) for name, about in AUDIT_TYPES.items()])


def draw_actions() -> str:
    """One row for each outcome."""
    return table(("Outcome", "What it means"), [(code(name), about) for name, about in AUDIT_ACTIONS.items()])


def draw_fields() -> str:
    """One row for each field of an event."""
    return _fields(AuditEvent)


def draw_payload() -> str:
    """One row for each field of a payload."""
    return _fields(AuditPayload)


def _fields(model: type[msgspec.Struct]) -> str:
    about = _meanings(model)
    rows = [(code(one.encode_name), about[one.name]) for one in msgspec.structs.fields(model)]
    return table(("Field", "What it says"), rows)


def _meanings(model: type[msgspec.Struct]) -> dict[str, str]:
    """The sentence that stands below each field; raises KeyError where one is missing."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    nodes = body.body if isinstance(body, ast.ClassDef) else []
    return {
        field.target.id: str(said.value.value)
        for field, said in pairwise(nodes)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
    }
