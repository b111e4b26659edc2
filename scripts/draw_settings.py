"""Draws the table of settings: what there is, its default, its flag and its meaning, as the code says it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

from placet.cli.serve import serve
from placet.notify.settings import NotifyRule, NotifySettings, RecipientSettings
from placet.protocol.discovery import ServiceDetails
from placet.relay.settings import (
    AgentSettings,
    CallerSettings,
    GroupSettings,
    GrpcSettings,
    NoticeSettings,
    RelaySettings,
    TenantSettings,
)
from placet.settings import PREFIX, Settings
from placet.verification.settings import VerificationSettings, WorldIdSettings
from scripts.drawing import code, table

VERIFICATION_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "verification": VerificationSettings,
    "verification.world_id": WorldIdSettings,
}
RELAY_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "relay": RelaySettings,
    "relay.agents.ID": AgentSettings,
    "relay.callers.NAME": CallerSettings,
    "relay.groups.NAME": GroupSettings,
    "relay.tenants.NAME": TenantSettings,
    "relay.notices.TENANT": NoticeSettings,
    "relay.grpc": GrpcSettings,
}
NOTIFY_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "notify": NotifySettings,
    "notify.recipients.NAME": RecipientSettings,
    "notify.rules": NotifyRule,
}
# What a text in the environment cannot say.
TABLES = frozenset({"relay", "notify", "discovery", "verification"})


def draw() -> str:
    """One row for each setting."""
    flags = {param.name: param.opts[0] for param in serve.params}
    about = meanings()
    rows = [
        (
            code(name),
            code(_toml(default)) if default is not None else "not set",
            code(PREFIX + name.upper()) if name not in TABLES else "",
            code(flags[name]) if name in flags else "",
            about[name] + _choices(name),
        )
        for name, default in msgspec.structs.asdict(Settings()).items()
    ]
    return table(("Setting", "Default", "Environment", "Flag of `serve`", "Meaning"), rows)


def meanings(struct: type[msgspec.Struct] = Settings) -> dict[str, str]:
    """The sentence that stands below each field; raises KeyError where one is missing."""
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    nodes = body.body if isinstance(body, ast.ClassDef) else []
    found = {
        field.target.id: said.value.value
        for field, said in pairwise(nodes)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
    }
    return {name: str(found[name]) for name in struct.__struct_fields__}


def draw_relay() -> str:
    """What stands below `[relay]`, table by table."""
    return _draw_tables(RELAY_TABLES)


def draw_notify() -> str:
    """What stands below `[notify]`, table by table."""
    return _draw_tables(NOTIFY_TABLES)


def draw_discovery() -> str:
    """What stands below `[discovery]`."""
    return _rows(ServiceDetails)


def draw_verification() -> str:
    """What stands below `[verification]`, table by table."""
    return _draw_tables(VERIFICATION_TABLES)


def _draw_tables(tables: Mapping[str, type[msgspec.Struct]]) -> str:
    return "\n\n".join(
        f"## `[{place}]`\n\n{_describe(struct, place)}\n\n{_rows(struct)}" for place, struct in tables.items()
    )


def _describe(struct: type[msgspec.Struct], place: str) -> str:
    return re.sub(rf", `\[+{re.escape(place)}\]+`", "", struct.__doc__ or "")


def _rows(struct: type[msgspec.Struct]) -> str:
    about = meanings(struct)
    rows = [
        (code(field.name), _default(field), about[field.name] + _choices(field.name, struct))
        for field in msgspec.structs.fields(struct)
    ]
    return table(("Setting", "Default", "Meaning"), rows)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is None or field.default_factory is not msgspec.NODEFAULT or field.default == ():
        return "none"
    return code(_toml(field.default))


def _choices(name: str, struct: type[msgspec.Struct] = Settings) -> str:
    hint = get_type_hints(struct)[name]
    return f" One of {', '.join(map(code, get_args(hint)))}." if get_origin(hint) is Literal else ""


def _toml(value: object) -> str:
    return msgspec.json.encode(value).decode()
